#include "boxinit/kill.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/own.h"

#define SEEN_MAX 65536

static bool parse_number(struct str field, unsigned long long *out)
{
    unsigned long long v = 0;

    if (field.len == 0 || field.len > 19) {
        return false;
    }
    for (size_t i = 0; i < field.len; i++) {
        if (field.p[i] < '0' || field.p[i] > '9') {
            return false;
        }
        v = v * 10 + (unsigned long long)(field.p[i] - '0');
    }
    *out = v;
    return true;
}

/* The fields behind the name: state is the first. */
static bool parse_fields(struct str rest, struct proc_stat *out)
{
    unsigned long long parent = 0;
    unsigned long long session = 0;

    for (int i = 3; i <= 22; i++) { /* numbers as in proc(5) */
        struct str field = str_cut(rest, ' ', &rest);

        if (field.len == 0) {
            return false;
        }
        if (i == 3) {
            out->state = field.p[0];
        } else if ((i == 4 && !parse_number(field, &parent)) ||
                   (i == 6 && !parse_number(field, &session)) ||
                   (i == 22 && !parse_number(field, &out->start))) {
            return false;
        }
    }
    out->parent = (pid_t)parent;
    out->session = (pid_t)session;
    return true;
}

bool kill_parse_stat(struct str line, struct proc_stat *out)
{
    unsigned long long pid = 0;
    struct str rest;
    const char *end;

    *out = (struct proc_stat){0};
    line = str_trim(line);
    if (line.len == 0 || !parse_number(str_cut(line, ' ', &rest), &pid)) {
        return false;
    }
    end = memrchr(line.p, ')', line.len);
    if (end == NULL || (size_t)(end - line.p) + 2 > line.len) {
        return false;
    }
    out->pid = (pid_t)pid;
    return parse_fields(str_skip(line, (size_t)(end - line.p) + 2), out);
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct proc_stat *)a)->pid;
    pid_t y = ((const struct proc_stat *)b)->pid;

    return (x > y) - (x < y);
}

static struct proc_stat *find(struct proc_stat *all, size_t n, pid_t pid)
{
    struct proc_stat key = {.pid = pid};

    return bsearch(&key, all, n, sizeof(*all), by_pid);
}

void kill_mark(struct proc_stat *all, size_t n, pid_t main_pid, const struct proc_id *seen,
               size_t n_seen)
{
    bool more = true;

    qsort(all, n, sizeof(*all), by_pid);
    for (size_t i = 0; i < n; i++) {
        all[i].marked = all[i].pid != 1 && (all[i].pid == main_pid || all[i].session == main_pid);
    }
    for (size_t i = 0; i < n_seen; i++) {
        struct proc_stat *p = find(all, n, seen[i].pid);

        if (p != NULL && p->pid != 1 && p->start == seen[i].start) {
            p->marked = true;
        }
    }
    while (more) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            struct proc_stat *parent = all[i].marked ? NULL : find(all, n, all[i].parent);

            if (parent != NULL && parent->marked) {
                all[i].marked = true;
                more = true;
            }
        }
    }
}

static bool read_stat(int proc, const char *name, struct proc_stat *out)
{
    char path[300];
    char line[1024];
    ssize_t len;

    (void)snprintf(path, sizeof(path), "%s/stat", name);
    int fd own_fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    len = read(fd, line, sizeof(line));
    return len > 0 && kill_parse_stat((struct str){line, (size_t)len}, out);
}

/* All processes of the box. The array is the caller's to free. */
static struct proc_stat *list_all(size_t *n)
{
    struct proc_stat *all = NULL;
    size_t cap = 0;
    DIR *dir = opendir("/proc");
    struct dirent *entry;

    *n = 0;
    if (dir == NULL) {
        return NULL;
    }
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') {
            continue;
        }
        if (*n == cap) {
            cap = cap > 0 ? cap * 2 : 64;
            all = xrealloc(all, cap, sizeof(*all));
        }
        *n += read_stat(dirfd(dir), entry->d_name, &all[*n]);
    }
    (void)closedir(dir);
    return all;
}

static void remember(struct task *t, const struct proc_stat *p)
{
    for (size_t i = 0; i < t->n_seen; i++) {
        if (t->seen[i].pid == p->pid && t->seen[i].start == p->start) {
            return;
        }
    }
    if (t->n_seen < SEEN_MAX) {
        t->seen = xrealloc(t->seen, t->n_seen + 1, sizeof(*t->seen));
        t->seen[t->n_seen++] = (struct proc_id){p->pid, p->start};
    }
}

size_t kill_tree(struct task *t, int sig, int then)
{
    size_t n = 0;
    size_t left = 0;
    struct proc_stat *all own_mem = list_all(&n);

    if (n > 0) {
        kill_mark(all, n, t->pid, t->seen, t->n_seen);
    }
    for (size_t i = 0; i < n; i++) {
        if (!all[i].marked || all[i].state == 'Z' || all[i].state == 'X') {
            continue;
        }
        left++;
        remember(t, &all[i]);
        if (sig != 0) {
            (void)kill(all[i].pid, sig);
        }
        if (then != 0) {
            (void)kill(all[i].pid, then);
        }
    }
    return left;
}

uint32_t kill_count(void)
{
    size_t n = 0;
    struct proc_stat *all = list_all(&n);

    free(all);
    return n > 0 ? (uint32_t)n - 1 : 0;
}
