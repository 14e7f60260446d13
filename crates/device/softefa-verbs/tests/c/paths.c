/* Programs that read /sys/class/infiniband themselves, by every function there is, find the devices of the run, and nothing
 * else looks different from before. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "check.h"

#define CLASS "/sys/class/infiniband"
#define DEVICE CLASS "/rdmap0s6"
#define STATE DEVICE "/ports/1/state"
static const char active[] = "4: ACTIVE\n";

/* Exported by glibc, not declared. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __xstat(int version, const char *path, struct stat *out);
int __lxstat(int version, const char *path, struct stat *out);
int __fxstatat(int version, int dir, const char *path, struct stat *out, int flags);
char *__realpath_chk(const char *path, char *out, size_t room);
ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room);

static void check_text(int fd)
{
	char text[64] = {0};
	CHECK(fd >= 0);
	CHECK(read(fd, text, sizeof(text) - 1) == (ssize_t)strlen(active) && !strcmp(text, active));
	CHECK(close(fd) == 0);
}

static void check_file(FILE *file)
{
	char text[64];
	CHECK(file && fgets(text, sizeof(text), file) && !strcmp(text, active));
	CHECK(fclose(file) == 0);
}

static void check_open(void)
{
	check_text(open(STATE, O_RDONLY));
	check_text(open64(STATE, O_RDONLY));
	check_text(openat(AT_FDCWD, STATE, O_RDONLY));
	check_text(openat64(AT_FDCWD, STATE, O_RDONLY));
	check_text(__open_2(STATE, O_RDONLY));
	check_text(__open64_2(STATE, O_RDONLY));
	check_text(__openat_2(AT_FDCWD, STATE, O_RDONLY));
	check_file(fopen(STATE, "r"));
	check_file(fopen64(STATE, "r"));
	int class = open(CLASS, O_RDONLY | O_DIRECTORY);
	CHECK(class >= 0);
	check_text(openat(class, "rdmap0s6/ports/1/state", O_RDONLY));
	CHECK(close(class) == 0);
	CHECK(open(CLASS "/absent", O_RDONLY) == -1 && errno == ENOENT);
	/* With a mode: it must arrive. */
	char path[] = "/tmp/softefa-paths-XXXXXX";
	int fd = mkstemp(path);
	CHECK(fd >= 0 && close(fd) == 0 && unlink(path) == 0);
	umask(0);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0640);
	struct stat made;
	CHECK(fd >= 0 && fstat(fd, &made) == 0 && (made.st_mode & 0777) == 0640);
	CHECK(close(fd) == 0 && unlink(path) == 0);
}

static void check_stat(void)
{
	struct stat is;
	struct statx more;
	CHECK(stat(STATE, &is) == 0 && S_ISREG(is.st_mode));
	CHECK(stat64(DEVICE, (struct stat64 *)&is) == 0 && S_ISDIR(is.st_mode));
	CHECK(lstat(DEVICE, &is) == 0 && S_ISLNK(is.st_mode));
	CHECK(lstat64(DEVICE, (struct stat64 *)&is) == 0 && S_ISLNK(is.st_mode));
	CHECK(fstatat(AT_FDCWD, DEVICE, &is, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(is.st_mode));
	CHECK(__xstat(1, DEVICE, &is) == 0 && S_ISDIR(is.st_mode));
	CHECK(__lxstat(1, DEVICE, &is) == 0 && S_ISLNK(is.st_mode));
	CHECK(__fxstatat(1, AT_FDCWD, DEVICE, &is, 0) == 0 && S_ISDIR(is.st_mode));
	CHECK(statx(AT_FDCWD, STATE, 0, STATX_TYPE, &more) == 0 && S_ISREG(more.stx_mode));
	CHECK(access(STATE, R_OK) == 0 && access(STATE, X_OK) == -1 && errno == EACCES);
	CHECK(faccessat(AT_FDCWD, STATE, R_OK, 0) == 0 && euidaccess(STATE, R_OK) == 0);
	CHECK(stat(CLASS "/absent", &is) == -1 && errno == ENOENT);
	CHECK(listxattr(STATE, NULL, 0) >= 0 && llistxattr(DEVICE, NULL, 0) >= 0);
	CHECK(getxattr(STATE, "user.none", NULL, 0) == -1 && errno != ENOENT);
	CHECK(lgetxattr(STATE, "user.none", NULL, 0) == -1 && errno != ENOENT);
	const char node[] = "/dev/infiniband/uverbs0";
	CHECK(lstat(node, &is) == 0 && S_ISCHR(is.st_mode));
	CHECK(statx(AT_FDCWD, node, 0, STATX_TYPE, &more) == 0 && S_ISCHR(more.stx_mode));
	CHECK(more.stx_rdev_major == 231 && more.stx_rdev_minor == 192);
	CHECK(faccessat(AT_FDCWD, node, R_OK | W_OK, 0) == 0);
}

static int any(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* As detectors of RDMA do. */
static void check_files(void)
{
	struct stat is;
	CHECK(stat("/dev/infiniband", &is) == 0 && S_ISDIR(is.st_mode));
	CHECK(access("/dev/infiniband/", R_OK | X_OK) == 0);
	struct dirent **names;
	CHECK(scandir("/dev/infiniband", &names, any, alphasort) == 1);
	CHECK(!strcmp(names[0]->d_name, "uverbs0"));
	free(names[0]);
	free(names);
	glob_t found;
	CHECK(glob("/dev/infiniband/uverbs*", 0, NULL, &found) == 0 && found.gl_pathc == 1);
	globfree(&found);
	int fd = open("/dev/infiniband/uverbs0", O_RDWR);
	CHECK(fd >= 0 && close(fd) == 0);
	CHECK(open("/dev/infiniband/uverbs1", O_RDWR) == -1 && errno == ENOENT);
}

/* Programs ask the kernel whether memory can be read. */
static void check_unreadable(void)
{
	char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), text[8];
	struct stat is;
	CHECK(page != MAP_FAILED);
	CHECK(access(page, F_OK) == -1 && errno == EFAULT);
	CHECK(open(page, O_RDONLY) == -1 && errno == EFAULT);
	CHECK(stat(page, &is) == -1 && errno == EFAULT);
	CHECK(readlink(page, text, sizeof(text)) == -1 && errno == EFAULT);
	CHECK(munmap(page, 4096) == 0);
	CHECK(access(page, F_OK) == -1 && errno == EFAULT);
	CHECK(access((char *)1, F_OK) == -1 && errno == EFAULT);
	/* At the end of what is mapped. */
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
	CHECK(access(strcpy(page + 4094, "/"), F_OK) == 0);
	CHECK(munmap(page, 4096) == 0);
}

static void check_walk(void)
{
	char one[PATH_MAX], other[PATH_MAX];
	struct dirent **names;
	glob_t found;
	CHECK(realpath(DEVICE "/device", one) == one && strstr(one, "/pci0000:00/0000:00:00.0"));
	CHECK(__realpath_chk(DEVICE "/device", other, sizeof(other)) == other && !strcmp(one, other));
	char *name = canonicalize_file_name(DEVICE "/device");
	CHECK(name && !strcmp(name, one));
	free(name);
	/* As NCCL and Mooncake do. */
	CHECK(strlen(one) + sizeof("/numa_node") < sizeof(other));
	strcat(strcpy(other, one), "/numa_node");
	CHECK(access(other, R_OK) == 0);
	ssize_t len = readlink(DEVICE, one, sizeof(one));
	CHECK(len > 0 && __readlink_chk(DEVICE, other, sizeof(other), sizeof(other)) == len);
	CHECK(readlinkat(AT_FDCWD, DEVICE, other, sizeof(other)) == len && !memcmp(one, other, len));
	DIR *dir = opendir(CLASS);
	CHECK(dir);
	int seen = 0;
	for (struct dirent *entry; (entry = readdir(dir));)
		seen += !strcmp(entry->d_name, "rdmap0s6");
	CHECK(seen == 1 && closedir(dir) == 0);
	CHECK(scandir(CLASS, &names, any, alphasort) == 1 && !strcmp(names[0]->d_name, "rdmap0s6"));
	free(names[0]);
	free(names);
	CHECK(glob(CLASS "/*/ports/*/state", 0, NULL, &found) == 0 && found.gl_pathc == 1);
	check_text(open(found.gl_pathv[0], O_RDONLY));
	globfree(&found);
	CHECK(chdir(CLASS) == 0 && access("rdmap0s6/ports/1/state", R_OK) == 0 && chdir("/") == 0);
}

static void check_others(void)
{
	char path[PATH_MAX];
	struct stat is;
	CHECK(realpath("/proc/self/exe", path) && strstr(path, "verbs-paths"));
	CHECK(stat("/sys/class/net/lo", &is) == 0 && access("/sys/class/net/lo/mtu", R_OK) == 0);
	CHECK(access("/sys/class/infiniband_mad", F_OK) == -1 && errno == ENOENT);
	const char *volatile nowhere = NULL;
	CHECK(open(nowhere, O_RDONLY) == -1 && errno == EFAULT);
	CHECK(fopen("/nonexistent", "r") == NULL && errno == ENOENT);
}

static volatile sig_atomic_t handled;

static void on_signal(int signal)
{
	/* Not among the locals: the stack is small. */
	static struct stat is;
	(void)signal;
	int fd = open("/proc/self/maps", O_RDONLY);
	CHECK(fd >= 0 && close(fd) == 0);
	CHECK(stat("/proc/self/exe", &is) == 0 && access("/proc/self/exe", R_OK) == 0);
	handled = 1;
}

/* A handler of signals whose stack has no room for a path beside what the kernel puts there. */
static void check_small_stack(void)
{
	size_t page = 4096, size = (getauxval(AT_MINSIGSTKSZ) + 3 * 1024 + page - 1) & ~(page - 1);
	char *memory = mmap(NULL, page + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED && mprotect(memory + page, size, PROT_READ | PROT_WRITE) == 0);
	/* As much as is asked for, at the lower end: behind the guard. */
	stack_t stack = {.ss_sp = memory + page, .ss_size = getauxval(AT_MINSIGSTKSZ) + 3 * 1024};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
	CHECK(raise(SIGUSR1) == 0 && handled);
}

int main(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list && count == 1);
	check_open();
	check_stat();
	check_walk();
	check_files();
	check_unreadable();
	check_others();
	check_small_stack();
	ibv_free_device_list(list);
	return 0;
}
