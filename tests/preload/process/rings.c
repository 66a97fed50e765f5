/* io_uring is served in this process, and not there where nobody serves it: in its children, with the library and without. Prints "fine". */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int ring(void)
{
    char parameters[120] = {0};
    return syscall(SYS_io_uring_setup, 8, parameters);
}

static void need(int good, const char *what)
{
    if (good)
        return;
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static void become(const char *what)
{
    execl("/proc/self/exe", "rings", what, (char *)0);
    _exit(1);
}

static void ends_well(pid_t child)
{
    int status;
    need(waitpid(child, &status, 0) == child && status == 0, "a child");
}

int main(int count, char **words)
{
    if (count > 1 && !strcmp(words[1], "none")) {
        need(ring() < 0 && errno == ENOSYS, "io_uring of a child");
        return 0;
    }
    need(ring() >= 0, "io_uring");
    if (count > 1 && !strcmp(words[1], "daemon")) {
        need(daemon(1, 1) == 0, "daemon");
        need(write(1, "fine\n", 5) == 5, "write");
        return 0;
    }
    if (count == 1) {
        pid_t child = fork();
        if (child == 0)
            _exit(ring() >= 0 || errno != ENOSYS);
        ends_well(child);
        child = fork();
        if (child == 0) {
            unsetenv("LD_PRELOAD");
            become("none");
        }
        ends_well(child);
        need(ring() >= 0, "io_uring");
        become("again");
    }
    puts("fine");
    return 0;
}
