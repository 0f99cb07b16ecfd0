/* bench.h - what the parts of the clock share: time, medians, a server on two pipes. */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <stddef.h>
#include <sys/types.h>

#define ROUNDS_MAX 100000
#define ANSWER_MAX 4096

/* What an answer has when the command ended well. */
#define EXIT_0 "\\\"exit_code\\\":0"

struct server {
    pid_t pid;
    int in, out;
    char *line; /* what was read and is not yet used */
    size_t have;
};

void die(const char *what) __attribute__((noreturn));
void fail(const char *what, const char *detail) __attribute__((noreturn));

double now_us(void);
void gap(int ms);
int number(const char *text, int max);
double median(double *v, int n);
void shuffle(int *v, int n);

/* The end of this part of the arguments: at "--", which becomes NULL, or at argc. */
int part_end(int argc, char **argv, int from);

/* A command by posix_spawn, which must end well. */
void run_command(char *const *argv);

void server_start(struct server *s, char **argv);
/* start, and the handshake */
void server_greet(struct server *s, char **argv);
void server_stop(struct server *s);
void server_say(struct server *s, const char *text);
/* One line; what does not fit is lost. */
void server_hear(struct server *s, char *to, size_t cap);
/* One line, which must have this in it; NULL: any. */
void server_expect(struct server *s, const char *must_have);
/* Request to answer, in microseconds. */
double server_time(struct server *s, const char *request, const char *must_have);

/* Requests, each a line. */
extern const char say_initialize[], say_initialized[], say_ping[], say_exec_true[];
#define REQUEST_MAX 512
void put_create(char *to, const char *box);
void put_exec_true(char *to, const char *box);
void put_delete(char *to, const char *box);

/* The modes that have a file of their own: see bench.c. */
int run_race(int argc, char **argv);
int run_rate(int argc, char **argv);

#endif
