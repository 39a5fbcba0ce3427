/* Makes one call of the system fail, or ends the process at it: preloaded, so that what libraries in
   C write is met as well. `fault_arm` says which call: the n-th of a kind on a path that contains a
   text, counted over all processes that were forked since. `fault_links` makes links as file systems
   without hard links do; the variable FAULT_LINKS does so from the start. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, OPEN, READ, WRITE, SYNC, CLOSE, LINK, UNLINK };
/* What happens: an errno, or one of these. */
enum { KILL = -9, TERMINATE = -15, STOP = -19 };
/* What link() does: as it should, or as on AFS, FAT, FUSE, BeeGFS, mergerfs. */
enum { HARD, NONE_BETWEEN, NO_PERMISSION, NOT_THERE, SYMBOLIC_BETWEEN, NO_RENAME_EITHER };

static struct {
    int call, nth, action, seen, links;
    char text[256];
} *fault;

__attribute__((constructor)) static void start(void) {
    fault = mmap(0, sizeof *fault, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *links = getenv("FAULT_LINKS");
    fault->links = links ? atoi(links) : HARD;
}

void fault_links(int links) { fault->links = links; }

void fault_arm(int call, const char *text, int nth, int action) {
    fault->call = call;
    fault->nth = nth;
    fault->action = action;
    fault->seen = 0;
    snprintf(fault->text, sizeof fault->text, "%s", text);
}

int fault_seen(void) { return fault->seen; }

/* Whether this call fails, with errno set. */
static int strikes(int call, const char *path) {
    if (fault->call != call || !path || !strstr(path, fault->text)) return 0;
    if (__sync_add_and_fetch(&fault->seen, 1) != fault->nth) return 0;
    if (fault->action < 0) {
        kill(getpid(), -fault->action);
        return 0;
    }
    errno = fault->action;
    return 1;
}

static int strikes_fd(int call, int fd) {
    char link[64], path[4096];
    if (fault->call != call) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return strikes(call, path);
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define FD_CALL(kind, type, name, parameters, ...)       \
    type name parameters {                               \
        REAL(name);                                      \
        return strikes_fd(kind, fd) ? -1 : real(__VA_ARGS__); \
    }

FD_CALL(READ, ssize_t, read, (int fd, void *data, size_t size), fd, data, size)
FD_CALL(WRITE, ssize_t, write, (int fd, const void *data, size_t size), fd, data, size)
FD_CALL(WRITE, ssize_t, writev, (int fd, const struct iovec *v, int n), fd, v, n)
FD_CALL(WRITE, ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), fd, data, size, at)
FD_CALL(WRITE, ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), fd, data, size, at)
FD_CALL(WRITE, ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), fd, v, n, at)
FD_CALL(SYNC, int, fsync, (int fd), fd)
FD_CALL(SYNC, int, fdatasync, (int fd), fd)

int close(int fd) {
    REAL(close);
    int failing = strikes_fd(CLOSE, fd), code = errno, result = real(fd);
    if (failing) errno = code;
    return failing ? -1 : result;
}

#define OPEN_CALL(name)                                     \
    int name(const char *path, int flags, ...) {            \
        REAL(name);                                         \
        va_list rest;                                       \
        va_start(rest, flags);                              \
        mode_t mode = va_arg(rest, mode_t);                 \
        va_end(rest);                                       \
        return strikes(OPEN, path) ? -1 : real(path, flags, mode); \
    }
OPEN_CALL(open)
OPEN_CALL(open64)

/* Whether two names lie in one folder. */
static int together(const char *one, const char *other) {
    const char *a = strrchr(one, '/'), *b = strrchr(other, '/');
    return a && b && a - one == b - other && !strncmp(one, other, a - one);
}

/* What link() gives here, if that is no hard link; 1 if it is. */
static int linked(const char *from, const char *to) {
    int links = fault->links, between = !together(from, to);
    if (links == SYMBOLIC_BETWEEN && between) return symlink(from, to);
    if ((links == NONE_BETWEEN || links == NO_RENAME_EITHER) && between) errno = EXDEV;
    else if (links == NO_PERMISSION) errno = EPERM;
    else if (links == NOT_THERE) errno = ENOSYS;
    else return 1;
    return -1;
}

int link(const char *from, const char *to) {
    REAL(link);
    if (strikes(LINK, to)) return -1;
    int done = linked(from, to);
    return done == 1 ? real(from, to) : done;
}

int linkat(int one, const char *from, int other, const char *to, int flags) {
    REAL(linkat);
    if (strikes(LINK, to)) return -1;
    int done = linked(from, to);
    return done == 1 ? real(one, from, other, to, flags) : done;
}

int rename(const char *from, const char *to) {
    REAL(rename);
    if (strikes(LINK, to)) return -1;
    if (fault->links == NO_RENAME_EITHER && !together(from, to)) {
        errno = EXDEV;
        return -1;
    }
    return real(from, to);
}

int renameat2(int one, const char *from, int other, const char *to, unsigned flags) {
    REAL(renameat2);
    return strikes(LINK, to) ? -1 : real(one, from, other, to, flags);
}

int unlink(const char *path) {
    REAL(unlink);
    return strikes(UNLINK, path) ? -1 : real(path);
}
