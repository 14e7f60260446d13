/* Collective operations: barriers between them, each lasts as long as on its slowest rank. */
#include "mpi_bench.h"
#include <stdlib.h>
#include <string.h>

struct collective {
    const char *test;
    uint8_t *mine;
    uint8_t *all;
    int64_t bytes;
    int64_t validate;
    int64_t sequence;
};

static void prepare(struct collective *c)
{
    if (!strcmp(c->test, "bcast")) {
        if (rank == 0)
            fill(c->all, c->bytes, 0, c->sequence);
        else
            memset(c->all, 0, (size_t)c->bytes);
    } else if (!strcmp(c->test, "allgather")) {
        fill(c->mine, c->bytes, rank, c->sequence);
    } else if (!strcmp(c->test, "allreduce")) {
        uint32_t *values = (uint32_t *)c->mine;
        for (int64_t i = 0; i < c->bytes / 4; i++)
            values[i] = (uint32_t)(rank + 1) * (uint32_t)(i + c->sequence);
    }
}

static void verify(struct collective *c)
{
    if (!strcmp(c->test, "bcast")) {
        check(c->all, c->bytes, 0, c->sequence);
    } else if (!strcmp(c->test, "allgather")) {
        for (int from = 0; from < ranks; from++)
            check(c->all + from * c->bytes, c->bytes, from, c->sequence);
    } else if (!strcmp(c->test, "allreduce")) {
        const uint32_t *sums = (const uint32_t *)c->all;
        uint32_t of_ranks = (uint32_t)ranks * (uint32_t)(ranks + 1) / 2;
        int64_t wrong = 0;
        for (int64_t i = 0; i < c->bytes / 4; i++)
            wrong += sums[i] != of_ranks * (uint32_t)(i + c->sequence);
        checks.validated++;
        checks.wrong += wrong != 0;
    }
}

static void operate(struct collective *c)
{
    int count = (int)c->bytes;
    if (!strcmp(c->test, "barrier"))
        MPI_Barrier(MPI_COMM_WORLD);
    else if (!strcmp(c->test, "bcast"))
        MPI_Bcast(c->all, count, MPI_BYTE, 0, MPI_COMM_WORLD);
    else if (!strcmp(c->test, "allgather"))
        MPI_Allgather(c->mine, count, MPI_BYTE, c->all, count, MPI_BYTE, MPI_COMM_WORLD);
    else
        MPI_Allreduce(c->mine, c->all, count / 4, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
}

static void operations(void *state, int64_t count, int64_t *times_ns)
{
    struct collective *c = state;
    for (int64_t i = 0; i < count; i++, c->sequence++) {
        int is_checked = c->validate || i == 0 || i == count - 1;
        if (is_checked)
            prepare(c);
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t start = now_ns();
        operate(c);
        times_ns[i] = now_ns() - start;
        if (is_checked)
            verify(c);
    }
}

void measure_collective(const struct measurement *m)
{
    struct collective c = { m->test, allocate(m->bytes), allocate(m->bytes * ranks), m->bytes,
                m->validate, 0 };
    print_slowest(measure(m, operations, &c));
    free(c.mine);
    free(c.all);
}
