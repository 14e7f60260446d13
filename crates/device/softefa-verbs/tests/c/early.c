/* A library whose constructor runs before softefa's own: the functions that softefa stands in front of work there, too.
 * Built as a shared object and preloaded behind softefa. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

#define PLACE "/proc/self"
#define NAME PLACE "/status"

char *__realpath_chk(const char *path, char *out, size_t room);

static void check_walk(void)
{
	char *path = realpath(PLACE, NULL);
	CHECK(path && !strncmp(path, "/proc/", 6));
	free(path);
	path = canonicalize_file_name(PLACE);
	CHECK(path);
	free(path);
	char room[4096];
	CHECK(__realpath_chk(PLACE, room, sizeof(room)) == room);
	CHECK(readlink(PLACE, room, sizeof(room)) > 0);
	DIR *dir = opendir(PLACE);
	CHECK(dir && readdir(dir) && closedir(dir) == 0);
	struct dirent **list;
	int found = scandir(PLACE, &list, NULL, alphasort);
	CHECK(found > 2);
	while (found--)
		free(list[found]);
	free(list);
	glob_t matches;
	CHECK(glob(NAME, 0, NULL, &matches) == 0 && matches.gl_pathc == 1);
	globfree(&matches);
	CHECK(realpath("/absent", NULL) == NULL && errno == ENOENT);
}

static void on_signal(int signal)
{
	(void)signal;
}

__attribute__((constructor)) static void early(void)
{
	struct stat found;
	int fd = open(NAME, O_RDONLY);
	CHECK(fd >= 0 && close(fd) == 0);
	CHECK(stat(NAME, &found) == 0 && access(NAME, R_OK) == 0);
	FILE *file = fopen(NAME, "r");
	CHECK(file && fgetc(file) == 'N' && fclose(file) == 0);
	file = fopen64(NAME, "r");
	CHECK(file && fclose(file) == 0);
	check_walk();
	CHECK(signal(SIGUSR1, on_signal) == SIG_DFL);
	CHECK(signal(SIGUSR1, SIG_DFL) == on_signal);
	CHECK(signal(SIGSEGV, SIG_DFL) == SIG_DFL);
}
