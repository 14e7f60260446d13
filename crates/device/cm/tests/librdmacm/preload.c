/*
 * Preloaded into a program that uses librdmacm: /dev/infiniband/rdma_cm is the test at the other
 * end of standard input, and there is one RDMA device, whose verbs only say that they were called.
 *
 * A request to the test: kind ('o' open, 'c' close, 'w' write), descriptor, length, bytes, length,
 * bytes behind the pointer of SET_OPTION. The answer to 'w': errno, address, length, bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#undef ibv_query_port

#define TEST 0
#define SET_OPTION 14
#define GUID 0x025345000A000001ull

static char is_ours[1024];

static int is_channel(int fd) { return fd > 0 && fd < 1024 && is_ours[fd]; }

static void *next(const char *name) {
  void *symbol = dlsym(RTLD_NEXT, name);
  if (!symbol) abort();
  return symbol;
}

static void send_all(const void *bytes, size_t len) {
  ssize_t (*real)(int, const void *, size_t) = next("write");
  for (ssize_t done; len > 0; bytes = (const char *)bytes + done, len -= done)
    if ((done = real(TEST, bytes, len)) <= 0) _exit(9);
}

static void receive_all(void *bytes, size_t len) {
  for (ssize_t done; len > 0; bytes = (char *)bytes + done, len -= done)
    if ((done = read(TEST, bytes, len)) <= 0) _exit(9);
}

static void ask(char kind, int fd, const void *bytes, uint32_t len) {
  send_all(&kind, 1);
  send_all(&fd, 4);
  send_all(&len, 4);
  send_all(bytes, len);
}

int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  int mode = va_arg(list, int);
  va_end(list);
  if (strcmp(path, "/dev/infiniband/rdma_cm") != 0) {
    int (*real)(const char *, int, ...) = next("open");
    return real(path, flags, mode);
  }
  int fd = eventfd(0, EFD_CLOEXEC);
  is_ours[fd] = 1;
  ask('o', fd, NULL, 0);
  return fd;
}

int fstat(int fd, struct stat *out) {
  if (!is_channel(fd)) {
    int (*real)(int, struct stat *) = next("fstat");
    return real(fd, out);
  }
  memset(out, 0, sizeof *out);
  out->st_mode = S_IFCHR | 0666;
  return 0;
}

int close(int fd) {
  if (is_channel(fd)) {
    is_ours[fd] = 0;
    ask('c', fd, NULL, 0);
  }
  int (*real)(int) = next("close");
  return real(fd);
}

ssize_t write(int fd, const void *bytes, size_t len) {
  if (!is_channel(fd)) {
    ssize_t (*real)(int, const void *, size_t) = next("write");
    return real(fd, bytes, len);
  }
  uint64_t at = 0;
  uint32_t command, value_len = 0, answer_len;
  int32_t error;
  char answer[4096];
  memcpy(&command, bytes, 4);
  if (command == SET_OPTION) {
    memcpy(&at, (const char *)bytes + 8, 8);
    memcpy(&value_len, (const char *)bytes + 28, 4);
  }
  ask('w', fd, bytes, len);
  send_all(&value_len, 4);
  send_all((const void *)(uintptr_t)at, value_len);
  receive_all(&error, 4);
  receive_all(&at, 8);
  receive_all(&answer_len, 4);
  receive_all(answer, answer_len);
  if (error) {
    errno = error;
    return -1;
  }
  memcpy((void *)(uintptr_t)at, answer, answer_len);
  return len;
}

static struct ibv_device device;
static struct ibv_context context = {.device = &device};
static struct ibv_pd domain = {.context = &context};
static struct ibv_comp_channel channel = {.context = &context};

struct ibv_device **ibv_get_device_list(int *count) {
  struct ibv_device **list = calloc(2, sizeof *list);
  list[0] = &device;
  if (count) *count = 1;
  return list;
}
void ibv_free_device_list(struct ibv_device **list) { free(list); }
__be64 ibv_get_device_guid(struct ibv_device *d) { return htobe64(GUID); }
int ibv_get_device_index(struct ibv_device *d) { return 3; }
struct ibv_context *ibv_open_device(struct ibv_device *d) { return &context; }
int ibv_close_device(struct ibv_context *c) { return 0; }
int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr) {
  *attr = (struct ibv_device_attr){.phys_port_cnt = 1, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16};
  return 0;
}
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr) {
  struct ibv_port_attr known = {.state = IBV_PORT_ACTIVE, .link_layer = IBV_LINK_LAYER_ETHERNET};
  memcpy(attr, &known, offsetof(struct ibv_port_attr, port_cap_flags2));
  return 0;
}
int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey) { return 0; }
struct ibv_pd *ibv_alloc_pd(struct ibv_context *c) { return &domain; }
int ibv_dealloc_pd(struct ibv_pd *pd) { return 0; }
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c) { return &channel; }
int ibv_destroy_comp_channel(struct ibv_comp_channel *c) { return 0; }
struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *user, struct ibv_comp_channel *ch, int vector) {
  return calloc(1, sizeof(struct ibv_cq));
}
int ibv_destroy_cq(struct ibv_cq *cq) {
  free(cq);
  return 0;
}
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece) { return EOPNOTSUPP; }
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece) { return EOPNOTSUPP; }

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) {
  static uint32_t last = 0x100;
  struct ibv_qp *qp = calloc(1, sizeof *qp);
  *qp = (struct ibv_qp){.qp_num = ++last, .qp_type = attr->qp_type, .context = &context, .pd = pd};
  return qp;
}
int ibv_destroy_qp(struct ibv_qp *qp) {
  free(qp);
  return 0;
}

/* Packet sequence numbers are random, so they are left out. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask) {
  printf("  modify %#x: state %d, mask %#x", qp->qp_num, attr->qp_state, mask);
  if (mask & IBV_QP_ACCESS_FLAGS) printf(", access %#x", attr->qp_access_flags);
  if (mask & IBV_QP_QKEY) printf(", qkey %#x", attr->qkey);
  if (mask & IBV_QP_AV) {
    const uint8_t *gid = attr->ah_attr.grh.dgid.raw;
    printf(", to %d.%d.%d.%d class %#x", gid[12], gid[13], gid[14], gid[15], attr->ah_attr.grh.traffic_class);
  }
  if (mask & IBV_QP_DEST_QPN) printf(", qp %#x", attr->dest_qp_num);
  if (mask & IBV_QP_PATH_MTU) printf(", mtu %d", attr->path_mtu);
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) printf(", answers %d", attr->max_dest_rd_atomic);
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) printf(", reads %d", attr->max_rd_atomic);
  if (mask & IBV_QP_TIMEOUT) printf(", timeout %d", attr->timeout);
  if (mask & IBV_QP_RETRY_CNT) printf(", retry %d", attr->retry_cnt);
  if (mask & IBV_QP_RNR_RETRY) printf(", rnr %d", attr->rnr_retry);
  printf("\n");
  return 0;
}
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid) {
  printf("  attach %d.%d.%d.%d\n", gid->raw[12], gid->raw[13], gid->raw[14], gid->raw[15]);
  return 0;
}
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid) {
  printf("  detach\n");
  return 0;
}
