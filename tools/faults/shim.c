/* At the n-th call that changes files below a folder, fail or end the process.

     gcc -shared -fPIC -O1 -o shim.so shim.c -ldl
     LD_PRELOAD=./shim.so python server.py

   This is below Python, because TensorFlow writes its files itself. `faults_arm` sets
   the folder, the call and what happens there. Each call is a line in the trace: its
   kind, and the path. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, FAIL_ONCE, DISK_FULL, KILL_BEFORE, KILL_AFTER };
enum { NEEDS_ROOM = 1 }; /* what a full disk refuses */

static char root[PATH_MAX];
static size_t root_length;
static long counted, wanted;
static int mode, trace_to = -1, reached;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Count calls below `folder` from now on, and do `what` at call number `at`. */
void faults_arm(const char *folder, long at, int what, int trace) {
  snprintf(root, sizeof root, "%s", folder);
  root_length = strlen(root);
  counted = reached = 0, wanted = at, mode = what, trace_to = trace;
}

/* Return the number of calls. */
long faults_count(void) { return counted; }

static int is_below(const char *path) {
  return root_length && !strncmp(path, root, root_length) &&
         (path[root_length] == '/' || !path[root_length]);
}

static const char *path_of(int fd, char *found) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, found, PATH_MAX - 1);
  found[length < 0 ? 0 : length] = 0;
  return found;
}

/* Write the absolute path of `path`, relative to a folder, to `found`. */
static const char *absolute(int folder, const char *path, char *found) {
  if (path[0] == '/') {
    snprintf(found, PATH_MAX, "%s", path);
  } else {
    char base[PATH_MAX];
    if (folder != AT_FDCWD)
      path_of(folder, base);
    else if (!getcwd(base, sizeof base))
      base[0] = 0;
    size_t length = strlen(base);
    memcpy(found, base, length);
    snprintf(found + length, PATH_MAX - length, "/%s", path);
  }
  return found;
}

static void trace(const char *what, const char *path) {
  char line[PATH_MAX + 64];
  int length = snprintf(line, sizeof line, "%s %s\n", what, path);
  if (trace_to >= 0) syscall(SYS_write, trace_to, line, length);
}

static void end(void) {
  syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  for (;;) syscall(SYS_pause);
}

/* Count a call; return what happens: 0, an errno, or -1 for SIGKILL after the call.
   A full disk stays full. */
static int begin(const char *what, const char *path, int needs) {
  if (!is_below(path)) return 0;
  pthread_mutex_lock(&lock);
  long number = ++counted;
  trace(what, path);
  int result = 0;
  if (mode == DISK_FULL && number >= wanted && needs) {
    result = ENOSPC;
    reached++;
  } else if (number == wanted) {
    if (mode == KILL_BEFORE) end();
    if (mode == KILL_AFTER) result = -1;
    if (mode == FAIL_ONCE) result = EIO;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

/* Return whether the first half of a write still fits on the disk. */
static int half_fits(int fault) { return fault == ENOSPC && reached == 1; }

#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Make a call that returns a number, or -1 if it fails. */
#define CALL(type, path, what, needs, ...) \
  int fault = begin(what, path, needs); \
  if (fault > 0) return errno = fault, -1; \
  type result = real(__VA_ARGS__); \
  if (fault < 0) end(); \
  return result

#define WRITES(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))
#define OPEN(name, folder, parameters, ...) \
  int name parameters { \
    REAL(name); \
    va_list more; \
    va_start(more, flags); \
    mode_t bits = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, int) : 0; \
    va_end(more); \
    char full[PATH_MAX]; \
    if (!WRITES(flags)) return real(__VA_ARGS__); \
    absolute(folder, path, full); \
    CALL(int, full, "open", (flags & O_CREAT) ? NEEDS_ROOM : 0, __VA_ARGS__); \
  }
OPEN(open, AT_FDCWD, (const char *path, int flags, ...), path, flags, bits)
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), path, flags, bits)
OPEN(openat, at, (int at, const char *path, int flags, ...), at, path, flags, bits)
OPEN(openat64, at, (int at, const char *path, int flags, ...), at, path, flags, bits)

#define PATH_CALL(name, what, folder, needs, parameters, ...) \
  int name parameters { \
    REAL(name); \
    char full[PATH_MAX]; \
    absolute(folder, path, full); \
    CALL(int, full, what, needs, __VA_ARGS__); \
  }
PATH_CALL(creat, "open", AT_FDCWD, NEEDS_ROOM, (const char *path, mode_t bits), path,
          bits)
PATH_CALL(creat64, "open", AT_FDCWD, NEEDS_ROOM, (const char *path, mode_t bits), path,
          bits)
PATH_CALL(unlink, "unlink", AT_FDCWD, 0, (const char *path), path)
PATH_CALL(remove, "unlink", AT_FDCWD, 0, (const char *path), path)
PATH_CALL(unlinkat, "unlink", at, 0, (int at, const char *path, int flags), at, path,
          flags)
PATH_CALL(rmdir, "rmdir", AT_FDCWD, 0, (const char *path), path)
PATH_CALL(mkdir, "mkdir", AT_FDCWD, NEEDS_ROOM, (const char *path, mode_t bits), path,
          bits)
PATH_CALL(mkdirat, "mkdir", at, NEEDS_ROOM, (int at, const char *path, mode_t bits), at,
          path, bits)
PATH_CALL(truncate, "truncate", AT_FDCWD, 0, (const char *path, off_t size), path, size)
PATH_CALL(truncate64, "truncate", AT_FDCWD, 0, (const char *path, off64_t size), path,
          size)
PATH_CALL(rename, "rename", AT_FDCWD, 0, (const char *old, const char *path), old, path)
PATH_CALL(renameat, "rename", at, 0,
          (int from, const char *old, int at, const char *path), from, old, at, path)
PATH_CALL(renameat2, "rename", at, 0,
          (int from, const char *old, int at, const char *path, unsigned flags), from,
          old, at, path, flags)
PATH_CALL(link, "link", AT_FDCWD, NEEDS_ROOM, (const char *old, const char *path), old,
          path)
PATH_CALL(linkat, "link", at, NEEDS_ROOM,
          (int from, const char *old, int at, const char *path, int flags), from, old,
          at, path, flags)
PATH_CALL(symlink, "link", AT_FDCWD, NEEDS_ROOM, (const char *old, const char *path),
          old, path)

#define FD_CALL(name, what, needs, parameters, ...) \
  int name parameters { \
    REAL(name); \
    char full[PATH_MAX]; \
    path_of(fd, full); \
    CALL(int, full, what, needs, __VA_ARGS__); \
  }
FD_CALL(fsync, "fsync", NEEDS_ROOM, (int fd), fd)
FD_CALL(fdatasync, "fsync", NEEDS_ROOM, (int fd), fd)
FD_CALL(ftruncate, "truncate", 0, (int fd, off_t size), fd, size)
FD_CALL(ftruncate64, "truncate", 0, (int fd, off64_t size), fd, size)

int close(int fd) {
  REAL(close);
  char full[PATH_MAX];
  int flags = fcntl(fd, F_GETFL);
  int fault = flags >= 0 && (flags & (O_WRONLY | O_RDWR))
                  ? begin("close", path_of(fd, full), 0)
                  : 0;
  int result = real(fd); /* closes even if it fails, as on Linux */
  if (fault < 0) end();
  return fault > 0 ? (errno = fault, -1) : result;
}

#define WRITE(name, parameters, size, half, ...) \
  ssize_t name parameters { \
    REAL(name); \
    char full[PATH_MAX]; \
    int fault = begin("write", path_of(fd, full), NEEDS_ROOM); \
    if (half_fits(fault) && (size) > 1) return half; \
    if (fault > 0) return errno = fault, -1; \
    ssize_t result = real(__VA_ARGS__); \
    if (fault < 0) end(); \
    return result; \
  }
WRITE(write, (int fd, const void *data, size_t size), size, real(fd, data, size / 2),
      fd, data, size)
WRITE(pwrite, (int fd, const void *data, size_t size, off_t at), size,
      real(fd, data, size / 2, at), fd, data, size, at)
WRITE(pwrite64, (int fd, const void *data, size_t size, off64_t at), size,
      real(fd, data, size / 2, at), fd, data, size, at)
WRITE(writev, (int fd, const struct iovec *parts, int count), count,
      real(fd, parts, count / 2), fd, parts, count)
WRITE(sendfile, (int fd, int from, off_t *at, size_t size), size,
      real(fd, from, at, 1), fd, from, at, size)
WRITE(sendfile64, (int fd, int from, off64_t *at, size_t size), size,
      real(fd, from, at, 1), fd, from, at, size)

ssize_t copy_file_range(int from, off64_t *at, int fd, off64_t *to, size_t size,
                        unsigned flags) {
  REAL(copy_file_range);
  char full[PATH_MAX];
  path_of(fd, full);
  CALL(ssize_t, full, "write", NEEDS_ROOM, from, at, fd, to, size, flags);
}

#define FOPEN(name) \
  FILE *name(const char *path, const char *how) { \
    REAL(name); \
    char full[PATH_MAX]; \
    if (how[0] == 'r' && !strchr(how, '+')) return real(path, how); \
    int fault = begin("open", absolute(AT_FDCWD, path, full), NEEDS_ROOM); \
    if (fault > 0) return errno = fault, NULL; \
    FILE *result = real(path, how); \
    if (fault < 0) end(); \
    return result; \
  }
FOPEN(fopen)
FOPEN(fopen64)

size_t fwrite(const void *data, size_t each, size_t count, FILE *file) {
  REAL(fwrite);
  char full[PATH_MAX];
  int fault = begin("write", path_of(fileno(file), full), NEEDS_ROOM);
  if (fault > 0) {
    size_t done = half_fits(fault) ? real(data, each, count / 2, file) : 0;
    return errno = fault, done;
  }
  size_t result = real(data, each, count, file);
  if (fault < 0) end();
  return result;
}

int fflush(FILE *file) {
  REAL(fflush);
  if (!file) return real(file);
  char full[PATH_MAX];
  CALL(int, path_of(fileno(file), full), "write", NEEDS_ROOM, file);
}

int fclose(FILE *file) {
  REAL(fclose);
  char full[PATH_MAX];
  int fd = fileno(file), flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
  int fault = flags >= 0 && (flags & (O_WRONLY | O_RDWR))
                  ? begin("close", path_of(fd, full), NEEDS_ROOM)
                  : 0;
  int result = real(file);
  if (fault < 0) end();
  return fault > 0 ? (errno = fault, EOF) : result;
}
