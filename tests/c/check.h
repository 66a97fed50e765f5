/* What the C tests share. A test program ends with check_result(). */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int check_failures;

/* The condition holds. */
#define CHECK(condition)                                                                              \
	do {                                                                                          \
		if (!(condition)) {                                                                   \
			check_failures++;                                                             \
			fprintf(stderr, "%s:%d: not so: %s (errno %d, %s)\n", __FILE__, __LINE__,     \
			        #condition, errno, strerror(errno));                                  \
		}                                                                                     \
	} while (0)

/* The call returns -1 and sets errno to this. */
#define FAILS(error, call)                                                                            \
	do {                                                                                          \
		long result_;                                                                         \
		errno = 0;                                                                            \
		result_ = (long)(call);                                                               \
		if (result_ != -1 || errno != (error)) {                                              \
			check_failures++;                                                             \
			fprintf(stderr, "%s:%d: %s: got %ld and %s, not %s\n", __FILE__, __LINE__,    \
			        #call, result_, strerror(errno), strerror(error));                    \
		}                                                                                     \
	} while (0)

static inline int
check_result(const char *name)
{
	if (check_failures)
		fprintf(stderr, "%s: %d checks failed\n", name, check_failures);
	return check_failures != 0;
}

#endif
