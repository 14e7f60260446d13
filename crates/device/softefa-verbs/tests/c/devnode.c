/* The check UCX makes before it takes a device: /dev/infiniband/<dev_name> must be a character
 * device that the program may read and write. No other path may look different from before. */
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

/* Exported by glibc for programs built before 2.33, but no longer declared. */
int __xstat(int version, const char *path, struct stat *out);

static const char absent[] = "/dev/infiniband/uverbs1";

static void check_other_paths(void)
{
	struct stat plain, old;
	CHECK(stat("/dev/null", &plain) == 0 && S_ISCHR(plain.st_mode));
	CHECK(__xstat(1, "/dev/null", &old) == 0);
	CHECK(plain.st_rdev == old.st_rdev && plain.st_ino == old.st_ino);
	CHECK(stat("/", &plain) == 0 && S_ISDIR(plain.st_mode));
	CHECK(access("/dev/null", R_OK | W_OK) == 0);
	CHECK(access("/dev/null/x", F_OK) == -1 && errno == ENOTDIR);
	CHECK(stat("/nonexistent", &plain) == -1 && errno == ENOENT);
	CHECK(__xstat(1, "/nonexistent", &plain) == -1 && errno == ENOENT);
	CHECK(stat("", &plain) == -1 && errno == ENOENT);
}

int main(void)
{
	struct stat node;
	char path[128];

	check_other_paths();
	/* What this machine itself has there says nothing about ours. */
	bool real = access("/dev/infiniband", F_OK) == 0;
	CHECK(real || access("/dev/infiniband/uverbs0", F_OK) == -1);

	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list && count == 1);
	snprintf(path, sizeof(path), "/dev/infiniband/%s", list[0]->dev_name);
	CHECK(stat(path, &node) == 0 && S_ISCHR(node.st_mode));
	memset(&node, 0, sizeof(node));
	CHECK(__xstat(1, path, &node) == 0 && S_ISCHR(node.st_mode));
	CHECK(access(path, R_OK | W_OK) == 0);
	CHECK(access(path, X_OK) == -1 && errno == EACCES);
	CHECK(real || (stat(absent, &node) == -1 && errno == ENOENT));
	CHECK(real || (access(absent, R_OK) == -1 && errno == ENOENT));
	check_other_paths();
	ibv_free_device_list(list);
	return 0;
}
