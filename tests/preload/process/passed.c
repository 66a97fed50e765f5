/* What a program does with descriptors that come otherwise than by its own calls of socket(2), and with numbers that others could take. The first
 * word says what is tried, the others are our address and a port. */
#define _GNU_SOURCE
#include <fcntl.h>
#include "common.h"

/* --- peers: of a link that is open come and go, and the numbers are the program's --- */

static void peers(void)
{
    int fd = listener(8);
    say("ready");
    for (int i = 0; i < 2; i++) {
        int made = accepted(fd), next = dup(0);
        need(made == fd + 1 && next == made + 1, "the lowest numbers");
        echo(made);
        char end;
        need(read(made, &end, 1) == 0, "the end");
        close(next);
        close(made);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"peers", peers},
    {"asks", asks},
};

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    address_is(words[2], words[3]);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(words[1], cases[i].name) == 0) {
            cases[i].run();
            say("fine");
            return 0;
        }
    }
    return 2;
}
