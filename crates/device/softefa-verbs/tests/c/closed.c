/* A program that closes every descriptor beyond the first three, as those that become services do, though here it has
 * opened a device before: the device ends, and its thread with it. */
#include "check.h"

#include <dirent.h>
#include <unistd.h>

static int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	int count = 0;
	CHECK(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

int main(void)
{
	struct node node = node_open();
	struct ibv_cq *cq = ibv_create_cq(node.context, 16, NULL, NULL, 0);
	CHECK(cq);
	srd_create(&node, cq);
	struct ibv_wc wc;
	CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	CHECK(threads() > 1);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	while (threads() > 1)
		CHECK(ibv_poll_cq(cq, 1, &wc) >= 0);
	return 0;
}
