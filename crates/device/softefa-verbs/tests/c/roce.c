/* Every value a program can ask a RoCE device for; what is an EFA's only is refused. */
#include <net/if.h>

#include "check.h"

/* Exported by libibverbs for its tools, declared in no public header. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
		       unsigned int *type);

static void check_limits(const struct ibv_device_attr *attr)
{
	CHECK_EQ(attr->max_mr_size, -1);
	CHECK_EQ(attr->page_size_cap, 0xfffff000);
	CHECK_EQ(attr->max_qp, 65535);
	CHECK_EQ(attr->max_qp_wr, 16384);
	CHECK_EQ(attr->max_sge, 32);
	CHECK_EQ(attr->max_sge_rd, 32);
	CHECK_EQ(attr->max_cq, 65536);
	CHECK(attr->max_cqe >= 32767);
	CHECK_EQ(attr->max_mr, 1 << 18);
	CHECK_EQ(attr->max_pd, 32764);
	CHECK_EQ(attr->max_qp_rd_atom, 128);
	CHECK_EQ(attr->max_qp_init_rd_atom, 128);
	CHECK_EQ(attr->max_res_rd_atom, 128 * 65535);
	CHECK_EQ(attr->max_mw, 1 << 18);
	CHECK_EQ(attr->max_mcast_grp, 8192);
	CHECK_EQ(attr->max_mcast_qp_attach, 56);
	CHECK_EQ(attr->max_total_mcast_qp_attach, 8192 * 56);
	CHECK_EQ(attr->max_ah, 32767);
	CHECK_EQ(attr->max_srq, 960);
	CHECK_EQ(attr->max_srq_wr, 16384);
	CHECK_EQ(attr->max_srq_sge, 32);
	CHECK_EQ(attr->max_pkeys, 1);
	CHECK_EQ(attr->local_ca_ack_delay, 15);
	CHECK_EQ(attr->phys_port_cnt, 1);
}

static void check_device(struct ibv_context *context)
{
	const unsigned works = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
			       IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_SYS_IMAGE_GUID |
			       IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
			       IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS |
			       IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC;
	struct ibv_device_attr attr;
	memset(&attr, 0xff, sizeof(attr));
	CHECK_EQ(ibv_query_device(context, &attr), 0);
	CHECK_EQ(attr.vendor_id, strtoul(getenv("EXPECT_VENDOR"), NULL, 0));
	CHECK_EQ(attr.vendor_part_id, strtoul(getenv("EXPECT_PART"), NULL, 0));
	CHECK_EQ(attr.node_guid, ibv_get_device_guid(context->device));
	CHECK_EQ(attr.sys_image_guid, attr.node_guid);
	CHECK(attr.fw_ver[0]);
	CHECK_EQ(attr.device_cap_flags, works);
	CHECK_EQ(attr.atomic_cap, IBV_ATOMIC_GLOB);
	check_limits(&attr);
	struct ibv_device_attr_ex ex;
	memset(&ex, 0xff, sizeof(ex));
	CHECK_EQ(ibv_query_device_ex(context, NULL, &ex), 0);
	CHECK_EQ(memcmp(&ex.orig_attr, &attr, sizeof(attr)), 0);
	CHECK_EQ(ex.device_cap_flags_ex, works | 1ull << 40 | 1ull << 38); /* ATOMIC_WRITE, FLUSH_GLOBAL */
	CHECK_EQ(ex.phys_port_cnt_ex, 1);
	CHECK_EQ(ex.tso_caps.max_tso, 0);
	CHECK_EQ(ex.max_dm_size, 0);
}

static void check_port(struct ibv_context *context)
{
	struct ibv_port_attr attr;
	memset(&attr, 0xff, sizeof(attr));
	CHECK_EQ(ibv_query_port(context, 1, &attr), 0);
	CHECK_EQ(attr.state, IBV_PORT_ACTIVE);
	CHECK_EQ(attr.phys_state, 5);
	CHECK_EQ(attr.max_mtu, IBV_MTU_4096);
	CHECK_EQ(attr.active_mtu, atoi(getenv("EXPECT_MTU_CODE")));
	CHECK_EQ(attr.max_msg_sz, 1u << 31);
	CHECK_EQ(attr.gid_tbl_len, atoi(getenv("EXPECT_GIDS")));
	CHECK_EQ(attr.pkey_tbl_len, 1);
	CHECK_EQ(attr.lid, 0);
	CHECK_EQ(attr.lmc, 0);
	CHECK_EQ(attr.max_vl_num, 1);
	CHECK_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	CHECK_EQ(attr.flags, IBV_QPF_GRH_REQUIRED);
	CHECK_EQ(attr.port_cap_flags, IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS);
	CHECK_EQ(attr.active_width, atoi(getenv("EXPECT_WIDTH")));
	CHECK_EQ(attr.active_speed, atoi(getenv("EXPECT_SPEED")));
	CHECK(ibv_query_port(context, 0, &attr) != 0);
	CHECK(ibv_query_port(context, 2, &attr) != 0);
}

static void check_tables(struct ibv_context *context)
{
	static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 3};
	const int gids = atoi(getenv("EXPECT_GIDS"));
	union ibv_gid gid;
	struct ibv_gid_entry entry, entries[4];
	CHECK_EQ(ibv_query_gid_table(context, entries, 4, 0), gids);
	for (int index = 0; index < gids; index++) {
		CHECK_EQ(ibv_query_gid(context, 1, index, &gid), 0);
		CHECK_EQ(memcmp(gid.raw, mapped, sizeof(mapped)), 0);
		memset(&entry, 0xff, sizeof(entry));
		CHECK_EQ(ibv_query_gid_ex(context, 1, index, &entry, 0), 0);
		CHECK_EQ(memcmp(entry.gid.raw, mapped, sizeof(mapped)), 0);
		CHECK_EQ(entry.gid_index, index);
		CHECK_EQ(entry.port_num, 1);
		CHECK_EQ(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
		CHECK_EQ(entry.ndev_ifindex, if_nametoindex("lo"));
		CHECK_EQ(memcmp(&entries[index], &entry, sizeof(entry)), 0);
		unsigned int type = 9;
		CHECK_EQ(ibv_query_gid_type(context, 1, index, &type), 0);
		CHECK_EQ(type, 1);
	}
	CHECK_EQ(ibv_query_gid(context, 1, gids, &gid), -1);
	CHECK_EQ(ibv_query_gid_ex(context, 1, gids, &entry, 0), ENODATA);
	/* The kernel does not return a part of the table either. */
	CHECK_EQ(ibv_query_gid_table(context, entries, gids - 1, 0), -EINVAL);
	uint16_t pkey = 0;
	CHECK_EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
	CHECK_EQ(pkey, 0xffff);
	CHECK_EQ(ibv_query_pkey(context, 1, 1, &pkey), -1);
	CHECK_EQ(ibv_get_pkey_index(context, 1, pkey), 0);
	CHECK_EQ(ibv_get_pkey_index(context, 1, htons(1)), -1);
}

/* libefa refuses devices that are not its own. */
static void check_no_efa(struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(pd && cq);
	struct efadv_device_attr attr;
	CHECK_EQ(efadv_query_device(context, &attr, sizeof(attr)), EOPNOTSUPP);
	struct ibv_qp_init_attr init = qp_attr(cq);
	errno = 0;
	CHECK(!efadv_create_driver_qp(pd, &init, EFADV_QP_DRIVER_TYPE_SRD));
	CHECK_EQ(errno, EOPNOTSUPP);
	struct ibv_qp_init_attr_ex init_ex = {.send_cq = cq, .recv_cq = cq, .cap = init.cap,
					      .qp_type = IBV_QPT_DRIVER,
					      .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd};
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	errno = 0;
	CHECK(!efadv_create_qp_ex(context, &init_ex, &efa, sizeof(efa)));
	CHECK_EQ(errno, EOPNOTSUPP);
	struct ibv_cq_init_attr_ex cq_init = {.cqe = 16};
	struct efadv_cq_init_attr cq_efa = {0};
	errno = 0;
	CHECK(!efadv_create_cq(context, &cq_init, &cq_efa, sizeof(cq_efa)));
	CHECK_EQ(errno, EOPNOTSUPP);
	union ibv_gid gid;
	CHECK_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1, .grh.dgid = gid};
	struct ibv_ah *ah = ibv_create_ah(pd, &ah_attr);
	CHECK(ah);
	struct efadv_ah_attr ah_efa;
	CHECK_EQ(efadv_query_ah(ah, &ah_efa, sizeof(ah_efa)), EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	/* The link-local GID of an EFA is no address here. */
	ah_attr.grh.dgid.raw[0] = 0xfe;
	CHECK(!ibv_create_ah(pd, &ah_attr));
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

/* What neither device has answers EOPNOTSUPP, as from the kernel. */
static void check_refusals(struct ibv_context *context)
{
	CHECK_EQ(ibv_query_ece(NULL, NULL), EOPNOTSUPP);
	struct ibv_alloc_dm_attr dm = {.length = 64};
	errno = 0;
	CHECK(!ibv_alloc_dm(context, &dm));
	CHECK_EQ(errno, EOPNOTSUPP);
	struct ibv_counters_init_attr counters = {0};
	errno = 0;
	CHECK(!ibv_create_counters(context, &counters));
	CHECK_EQ(errno, EOPNOTSUPP);
}

int main(void)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list);
	CHECK_EQ(count, 1);
	CHECK_EQ(strcmp(ibv_get_device_name(list[0]), "roce0"), 0);
	CHECK_EQ(list[0]->node_type, IBV_NODE_CA);
	CHECK_EQ(list[0]->transport_type, IBV_TRANSPORT_IB);
	struct ibv_context *context = ibv_open_device(list[0]);
	CHECK(context);
	ibv_free_device_list(list);
	check_device(context);
	check_port(context);
	check_tables(context);
	check_no_efa(context);
	check_refusals(context);
	CHECK_EQ(ibv_close_device(context), 0);
	return 0;
}
