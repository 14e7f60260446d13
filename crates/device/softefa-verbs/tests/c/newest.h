/*
 * What the headers of rdma-core 65 declare and those of Debian 12 (44) do not. Structures have
 * names of their own, so that a newer system's headers are no trouble.
 */
#ifndef NEWEST_H
#define NEWEST_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>

#include "rdma.h"

#define CAPS_RDMA_WRITE (1u << 3)
#define QP_FLAGS_INLINE_WRITE (1 << 1)
#define WR_EX_WITH_PROCESSING_HINTS 1
#define WR_HINT_BURST_PPS_SENSITIVE 1
#define SQ_DEPTH_INLINE_WRITE 1
#define CQ_FLAGS_EXT_MEM_DMABUF 1
#define CQ_ATTR_SINGLE_THREADED 1
#define CQ_ATTR_IGNORE_OVERRUN 2

struct newest_device_attr {
	uint64_t comp_mask;
	uint32_t max_sq_wr;
	uint32_t max_rq_wr;
	uint16_t max_sq_sge;
	uint16_t max_rq_sge;
	uint16_t inline_buf_size;
	uint16_t inline_buf_size_ex;
	uint32_t device_caps;
	uint32_t max_rdma_size;
};

struct newest_qp_init_attr {
	uint64_t comp_mask;
	uint32_t driver_qp_type;
	uint16_t flags;
	uint8_t sl;
	uint8_t reserved;
	uint64_t wr_flags;
};

struct newest_qp {
	uint64_t comp_mask;
	void (*wr_set_processing_hints)(struct newest_qp *qp, uint32_t hints);
};

struct newest_cq_init_attr {
	uint64_t comp_mask;
	uint64_t wc_flags;
	uint64_t flags;
	struct {
		uint8_t *buffer;
		uint64_t length;
		uint64_t offset;
		int32_t fd;
		uint8_t reserved[4];
	} ext_mem_dmabuf;
};

struct newest_sq_depth_attr {
	uint64_t comp_mask;
	uint32_t flags;
	uint32_t max_send_sge;
	uint32_t max_rdma_sge;
	uint32_t max_inline_data;
};

struct newest_rq_depth_attr {
	uint64_t comp_mask;
	uint32_t max_recv_sge;
};

struct newest_mr_attr {
	uint64_t comp_mask;
	uint16_t ic_id_validity;
	uint16_t recv_ic_id;
	uint16_t rdma_read_ic_id;
	uint16_t rdma_recv_ic_id;
};

/* Debian's libraries lack the functions, so that linking to them is not possible. */
static inline void *find(const char *name)
{
	void *function = dlsym(RTLD_DEFAULT, name);
	if (!function) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return function;
}

static inline struct newest_qp *qp_from_ex(struct ibv_qp_ex *ex)
{
	struct newest_qp *(*function)(struct ibv_qp_ex *) = find("efadv_qp_from_ibv_qp_ex");
	return function(ex);
}

static inline struct ibv_qp *newest_create(struct node *node, struct ibv_qp_init_attr_ex *attr,
					   uint16_t flags, uint64_t wr_flags)
{
	struct newest_qp_init_attr efa = {
		.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD, .flags = flags, .wr_flags = wr_flags};
	return efadv_create_qp_ex(node->context, attr, (struct efadv_qp_init_attr *)&efa,
				  sizeof(efa));
}

#endif
