/* fork, exec, posix_spawn: what a child has of our sockets. */
#include "calls.h"

#include <spawn.h>
#include <sys/wait.h>

static unsigned char buffer[4096];

static void wait_for(const char *what, pid_t child)
{
	int status;
	if (waitpid(child, &status, 0) != child)
		fail("waitpid: %m");
	say(what, "%s %d", WIFEXITED(status) ? "exit" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* A master that binds, and a worker that accepts. */
static void inherited_listener(void)
{
	int port = fresh_port(), waiting_fd = listener(0, port);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		int fd = accept(waiting_fd, NULL, NULL);
		fill(buffer, 0, 100);
		_exit(fd != -1 && write(fd, buffer, 100) == 100 && read(fd, buffer, 100) == 0 ? 0 : 1);
	}
	result("peer connects", peer("connect 0 %d", port));
	result("peer receives", peer("receive 0 100"));
	peer("shut 0");
	wait_for("worker", child);
	close(waiting_fd);
}

static void connection_of_a_child(void)
{
	int port = fresh_port();
	peer("listen %d", port);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		int fd = tcp(0);
		fill(buffer, 0, 100);
		if (connect(fd, at(&theirs, port), address_length) == -1)
			_exit(2);
		_exit(write(fd, buffer, 100) == 100 && read(fd, buffer, 100) == 0 ? 0 : 1);
	}
	result("peer accepts", peer("accept 0"));
	result("peer receives", peer("receive 0 100"));
	peer("shut 0");
	wait_for("child", child);
}

/* A child that has nothing to do with our sockets leaves them alone. */
static void child_that_ends(void)
{
	int fd = pair(0), status;
	pid_t child = fork();
	if (child == 0)
		_exit(7);
	wait_for("child", child);
	peer("send 0 10");
	result("read", recv(fd, buffer, 10, MSG_WAITALL));
	child = vfork();
	if (child == 0)
		_exit(8);
	wait_for("child of vfork", child);
	status = system("exit 9");
	say("system", "%d", WEXITSTATUS(status));
	send_all(fd, 0, 10);
	result("peer receives", peer("receive 0 10"));
	close(fd);
	result("peer at the end", peer("receive 0 1"));
}

static void spawned(void)
{
	int fd = pair(0), pipes[2];
	pid_t child;
	char *words[] = {"sh", "-c", "echo hello", NULL};
	posix_spawn_file_actions_t actions;
	if (pipe(pipes) == -1)
		fail("pipe: %m");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
	posix_spawn_file_actions_addclose(&actions, fd);
	say("posix_spawn", "%d", posix_spawn(&child, "/bin/sh", &actions, NULL, words, environ));
	posix_spawn_file_actions_destroy(&actions);
	result("read", read(pipes[0], buffer, 6));
	wait_for("child", child);
	close(pipes[0]);
	close(pipes[1]);
	peer("send 0 10");
	result("the connection works", recv(fd, buffer, 10, MSG_WAITALL));
	close(fd);
}

static void closed_by_exec(void)
{
	int fd = pair(0);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	char test[100];
	snprintf(test, sizeof test, "test ! -e /proc/self/fd/%d", fd);
	pid_t child = fork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", test, (char *)NULL);
		_exit(99);
	}
	wait_for("a program without it", child);
	peer("send 0 10");
	result("the connection works", recv(fd, buffer, 10, MSG_WAITALL));
	close(fd);
}

/* The descriptor is there; what becomes of the connection there is the business of who executes. */
static void kept_by_exec(void)
{
	int fd = pair(0), status = -1;
	char test[100];
	snprintf(test, sizeof test, "test -S /proc/self/fd/%d", fd);
	pid_t child;
	char *words[] = {"sh", "-c", test, NULL};
	say("posix_spawn", "%d", posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ));
	wait_for("a program with it", child);
	status = system(test);
	say("system", "%d", WEXITSTATUS(status));
	peer("send 0 10");
	result("the connection works", recv(fd, buffer, 10, MSG_WAITALL));
	close(fd);
}

/* Two workers of a master that goes on to accept itself when they have ended. */
static void master_and_workers(void)
{
	int port = fresh_port(), waiting_fd = listener(0, port);
	for (int worker = 0; worker < 2; worker++) {
		fflush(stdout);
		pid_t child = fork();
		if (child == 0) {
			int fd = accept(waiting_fd, NULL, NULL);
			_exit(fd != -1 && recv(fd, buffer, 10, MSG_WAITALL) == 10 && write(fd, buffer, 10) == 10 && read(fd, buffer, 1) == 0
					  ? 0
					  : 1);
		}
		result("peer connects", peer("connect 0 %d", port));
		result("peer sends", peer("send 0 10"));
		result("peer receives", peer("drain 0 10"));
		peer("shut 0");
		wait_for("worker", child);
	}
	peer("after 50 connect 0 %d", port);
	int fd = descriptor("accept", accept(waiting_fd, NULL, NULL));
	send_all(fd, 0, 10);
	result("peer receives", peer("receive 0 10"));
	close(fd);
	close(waiting_fd);
}

/* A server that forks for each connection, which is the child's from then on. */
static void connection_for_a_child(void)
{
	struct sockaddr_storage name;
	socklen_t length = sizeof name;
	int fd = pair(0);
	pid_t child = fork();
	if (child == 0) {
		if (getpeername(fd, (struct sockaddr *)&name, &length) == -1 || length != address_length)
			_exit(2);
		if (recv(fd, buffer, 10, MSG_WAITALL) != 10)
			_exit(3);
		fill(buffer, 0, 100);
		_exit(write(fd, buffer, 100) == 100 && read(fd, buffer, 100) == 0 ? 0 : 1);
	}
	close(fd);
	peer("send 0 10");
	result("peer receives", peer("receive 0 100"));
	peer("shut 0");
	wait_for("child", child);
	result("peer at the end", peer("receive 0 1"));
}

/* The same as inetd does it: what is executed knows of nothing. */
static void connection_for_a_program(void)
{
	int fd = pair(0);
	pid_t child = fork();
	if (child == 0) {
		dup2(fd, 0);
		dup2(fd, 1);
		close(fd);
		execl("/bin/cat", "cat", (char *)NULL);
		_exit(99);
	}
	close(fd);
	peer("send 0 3000");
	result("peer receives", peer("receive 0 3000"));
	peer("shut 0");
	wait_for("program", child);
	result("peer at the end", peer("receive 0 1"));
}

/* Parent and child have it: the one reads, both write. */
static void connection_of_both(void)
{
	int fd = pair(0);
	pid_t child = fork();
	if (child == 0) {
		fill(buffer, 0, 100);
		_exit(write(fd, buffer, 100) == 100 ? 0 : 1);
	}
	wait_for("child", child);
	result("peer receives", peer("receive 0 100"));
	peer("send 0 10");
	result("read", recv(fd, buffer, 10, MSG_WAITALL));
	send_all(fd, 100, 10);
	result("peer receives", peer("receive 0 10"));
	close(fd);
	result("peer at the end", peer("receive 0 1"));
}

const struct test processes[] = {{"inherited listener", inherited_listener},
								 {"connection of a child", connection_of_a_child},
								 {"child that ends", child_that_ends},
								 {"spawned", spawned},
								 {"closed by exec", closed_by_exec},
								 {"connection for a child", connection_for_a_child},
								 {"connection for a program", connection_for_a_program},
								 {"connection of both", connection_of_both},
								 {"kept by exec", kept_by_exec},
								 {"master and workers", master_and_workers},
								 {0}};
