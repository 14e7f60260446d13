/* Every value a program can ask the device for, and the files libfabric looks up. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "check.h"

/* Exported by libibverbs for its tools, declared in no public header. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static void check_device(struct ibv_context *context)
{
	struct ibv_device_attr attr;
	CHECK_EQ(ibv_query_device(context, &attr), 0);
	CHECK_EQ(attr.vendor_id, 0x1d0f);
	CHECK_EQ(attr.vendor_part_id, strtoul(getenv("EXPECT_PART"), NULL, 0));
	CHECK_EQ(attr.max_mr_size, 103079215104);
	CHECK_EQ(attr.page_size_cap, 4294963200);
	CHECK_EQ(attr.max_qp, 256);
	CHECK_EQ(attr.max_qp_wr, 4096);
	CHECK_EQ(attr.max_sge, 2);
	CHECK_EQ(attr.max_sge_rd, 1);
	CHECK_EQ(attr.max_cq, 512);
	CHECK_EQ(attr.max_cqe, 32768);
	CHECK_EQ(attr.max_mr, 262144);
	CHECK_EQ(attr.max_pd, 256);
	CHECK_EQ(attr.max_ah, 1024);
	CHECK_EQ(attr.max_pkeys, 1);
	CHECK_EQ(attr.phys_port_cnt, 1);
	struct ibv_device_attr_ex ex;
	CHECK_EQ(ibv_query_device_ex(context, NULL, &ex), 0);
	CHECK_EQ(memcmp(&ex.orig_attr, &attr, sizeof(attr)), 0);
	CHECK_EQ(ex.phys_port_cnt_ex, 1);
	CHECK_EQ(ex.odp_caps.general_caps, 0);
}

static void check_port(struct ibv_context *context)
{
	struct ibv_port_attr attr;
	memset(&attr, 0xff, sizeof(attr));
	CHECK_EQ(ibv_query_port(context, 1, &attr), 0);
	CHECK_EQ(attr.state, IBV_PORT_ACTIVE);
	CHECK_EQ(attr.phys_state, 5);
	CHECK_EQ(attr.lmc, 1);
	CHECK_EQ(attr.gid_tbl_len, 1);
	CHECK_EQ(attr.pkey_tbl_len, 1);
	CHECK_EQ(attr.max_mtu, IBV_MTU_4096);
	CHECK_EQ(attr.active_mtu, IBV_MTU_4096);
	CHECK_EQ(attr.max_msg_sz, 8928);
	CHECK_EQ(attr.link_layer, IBV_LINK_LAYER_UNSPECIFIED);
	CHECK_EQ(attr.active_width, 2);
	CHECK_EQ(attr.active_speed, 32);
	CHECK(ibv_query_port(context, 2, &attr) != 0);
}

static void check_tables(struct ibv_context *context)
{
	union ibv_gid gid;
	CHECK_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
	CHECK(gid.raw[0] == 0xfe && gid.raw[1] == 0x80);
	CHECK_EQ(ibv_query_gid(context, 1, 1, &gid), -1);
	CHECK_EQ(ibv_query_gid(context, 2, 0, &gid), -1);
	struct ibv_gid_entry entry, entries[4];
	CHECK_EQ(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
	CHECK_EQ(memcmp(&entry.gid, &gid, sizeof(gid)), 0);
	CHECK_EQ(ibv_query_gid_ex(context, 1, 1, &entry, 0), ENODATA);
	CHECK_EQ(ibv_query_gid_table(context, entries, 4, 0), 1);
	CHECK_EQ(memcmp(&entries[0].gid, &gid, sizeof(gid)), 0);
	CHECK_EQ(gid.global.interface_id, ibv_get_device_guid(context->device));
	uint16_t pkey = 0;
	CHECK_EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
	CHECK_EQ(pkey, 0xffff);
	CHECK_EQ(ibv_get_pkey_index(context, 1, pkey), 0);
	CHECK_EQ(ibv_get_pkey_index(context, 1, 1), -1);
}

static void check_efa(struct ibv_context *context)
{
	struct {
		struct efadv_device_attr attr;
		char newer[16];
	} got;
	memset(&got, 0xff, sizeof(got));
	CHECK_EQ(efadv_query_device(context, &got.attr, sizeof(got)), 0);
	CHECK_EQ(got.attr.comp_mask, 0);
	CHECK_EQ(got.attr.max_sq_wr, 4096);
	CHECK_EQ(got.attr.max_rq_wr, 32768);
	CHECK_EQ(got.attr.max_sq_sge, 2);
	CHECK_EQ(got.attr.max_rq_sge, 3);
	CHECK_EQ(got.attr.inline_buf_size, 32);
	CHECK(got.attr.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY);
	CHECK(got.attr.device_caps & EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID);
	CHECK_EQ(got.newer[0], 0);
	/* A program from before device_caps passes less and gets less. */
	memset(&got, 0xff, sizeof(got));
	CHECK_EQ(efadv_query_device(context, &got.attr, 24), 0);
	CHECK_EQ(got.attr.max_rq_wr, 32768);
	CHECK_EQ(got.attr.device_caps, 0xffffffff);
	CHECK_EQ(efadv_query_device(context, &got.attr, 16), EINVAL);
}

/* What libfabric 1.17 (efa_device.c) and ibv_devinfo read. */
static void check_sysfs(struct ibv_device *device)
{
	char text[256], path[PATH_MAX + 64], real[PATH_MAX];
	CHECK(getenv("SYSFS_PATH"));
	CHECK_EQ(strcmp(ibv_get_sysfs_path(), getenv("SYSFS_PATH")), 0);
	snprintf(path, sizeof(path), "%s/class/infiniband_verbs", getenv("SYSFS_PATH"));
	CHECK(ibv_read_sysfs_file(path, "abi_version", text, sizeof(text)) > 0);
	CHECK(atoi(text) >= 6);
	snprintf(path, sizeof(path), "%s/device", device->ibdev_path);
	CHECK(realpath(path, real));
	unsigned domain, bus, slot, function;
	CHECK_EQ(sscanf(strrchr(real, '/') + 1, "%x:%x:%x.%x", &domain, &bus, &slot, &function), 4);
	snprintf(path, sizeof(path), "%s/device/driver", device->ibdev_path);
	CHECK(readlink(path, real, sizeof(real)) > 0);
	CHECK_EQ(ibv_read_sysfs_file(device->ibdev_path, "no_such_file", text, sizeof(text)), -1);
}

/* The descriptors must be real: programs poll them and make them non-blocking. */
static void check_events(struct ibv_context *context)
{
	CHECK_EQ(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
	struct ibv_async_event event;
	CHECK_EQ(ibv_get_async_event(context, &event), -1);
	CHECK_EQ(errno, EAGAIN);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	CHECK(channel && channel->context == context);
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
	CHECK_EQ(poll(&fd, 1, 0), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

int main(void)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list);
	CHECK_EQ(count, 1);
	CHECK(!list[1]);
	CHECK_EQ(strcmp(ibv_get_device_name(list[0]), "rdmap0s6"), 0);
	CHECK_EQ(list[0]->node_type, IBV_NODE_UNSPECIFIED);
	CHECK_EQ(list[0]->transport_type, IBV_TRANSPORT_UNSPECIFIED);
	CHECK_EQ(ibv_get_device_index(list[0]), -1);
	CHECK_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	CHECK_EQ(ibv_fork_init(), 0);
	check_sysfs(list[0]);
	struct ibv_context *context = ibv_open_device(list[0]);
	CHECK(context && context->device == list[0]);
	CHECK(context->num_comp_vectors >= 2);
	ibv_free_device_list(list);
	check_device(context);
	check_port(context);
	check_tables(context);
	check_efa(context);
	check_events(context);
	CHECK_EQ(ibv_close_device(context), 0);
	return 0;
}
