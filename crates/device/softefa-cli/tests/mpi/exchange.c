/*
 * Exchanges messages between all ranks in the usual ways and checks every byte.
 *
 *   exchange MAX_BYTES ROUNDS     sizes 1, 4, 16 .. MAX_BYTES
 *
 * Rank 0 prints "sent N": the least number of payload bytes that all ranks together handed to
 * the network, so that whoever runs this can compare it with what a device counted. A wrong byte
 * or a failed call ends all ranks with a message and code 1.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Messages of one rank to each other rank that are on their way at the same time. */
enum { WINDOW = 16, WINDOW_BYTES_MAX = 4 << 20 };

static int rank, ranks;
static int64_t sent_bytes;

static void fail(const char *what, size_t bytes, int from)
{
    fprintf(stderr, "rank %d: %s of %zu bytes from rank %d: wrong data\n", rank, what, bytes, from);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "rank %d: no memory for %zu bytes\n", rank, bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* A byte sequence of its own for each sender, receiver and message. */
static uint32_t seed_of(int from, int to, int message)
{
    return 2654435761u * (uint32_t)(from * 1009 + to * 31 + message + 1);
}

static void fill(uint8_t *data, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (uint8_t)(seed >> 24);
    }
}

static void check(const uint8_t *data, size_t bytes, uint32_t seed, const char *what, int from)
{
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (data[i] != (uint8_t)(seed >> 24))
            fail(what, bytes, from);
    }
}

/* Neighbours in a ring, blocking calls: odd ranks receive first. */
static void ring(uint8_t *out, uint8_t *in, size_t bytes, int round)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    fill(out, bytes, seed_of(rank, next, round));
    if (rank % 2 == 0) {
        MPI_Send(out, (int)bytes, MPI_BYTE, next, 7, MPI_COMM_WORLD);
        MPI_Recv(in, (int)bytes, MPI_BYTE, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, (int)bytes, MPI_BYTE, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, (int)bytes, MPI_BYTE, next, 7, MPI_COMM_WORLD);
    }
    check(in, bytes, seed_of(before, rank, round), "ring", before);
    sent_bytes += (int64_t)bytes;
}

/* Many messages to every other rank at once, half of them before their receives are posted;
 * each must arrive once, in the order of its tag. */
static void window(size_t bytes, int round)
{
    int count = bytes * WINDOW > WINDOW_BYTES_MAX ? 2 : WINDOW;
    int total = ranks * count, posted = 0;
    uint8_t *out = allocate((size_t)total * bytes), *in = allocate((size_t)total * bytes);
    MPI_Request *requests = allocate(2 * (size_t)total * sizeof *requests);
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < total; i++) {
            int peer = i / count, message = i % count;
            if (peer == rank)
                continue;
            /* Receives of the second half are posted after the sends of the first. */
            if (half == message % 2)
                MPI_Irecv(in + i * bytes, (int)bytes, MPI_BYTE, peer, message, MPI_COMM_WORLD,
                          &requests[posted++]);
            if (half == 0) {
                fill(out + i * bytes, bytes, seed_of(rank, peer, message + round));
                MPI_Isend(out + i * bytes, (int)bytes, MPI_BYTE, peer, message, MPI_COMM_WORLD,
                          &requests[posted++]);
                sent_bytes += (int64_t)bytes;
            }
        }
    }
    MPI_Waitall(posted, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < total; i++) {
        int peer = i / count;
        if (peer != rank)
            check(in + i * bytes, bytes, seed_of(peer, rank, i % count + round), "window", peer);
    }
    free(out);
    free(in);
    free(requests);
}

/* Sizes and senders that the receiver learns from a probe. */
static void probe(uint8_t *out, uint8_t *in, size_t bytes, int round)
{
    MPI_Request requests[ranks];
    int posted = 0;
    fill(out, bytes, seed_of(rank, 0, round));
    for (int peer = 0; peer < ranks; peer++)
        if (peer != rank) {
            MPI_Isend(out, (int)bytes, MPI_BYTE, peer, 9, MPI_COMM_WORLD, &requests[posted++]);
            sent_bytes += (int64_t)bytes;
        }
    for (int i = 1; i < ranks; i++) {
        MPI_Status status;
        int count;
        MPI_Probe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        if (count != (int)bytes)
            fail("probe", bytes, status.MPI_SOURCE);
        MPI_Recv(in, count, MPI_BYTE, status.MPI_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(in, bytes, seed_of(status.MPI_SOURCE, 0, round), "probe", status.MPI_SOURCE);
    }
    MPI_Waitall(posted, requests, MPI_STATUSES_IGNORE);
}

static void allgather(size_t bytes, int round)
{
    uint8_t *all = allocate((size_t)ranks * bytes), *mine = allocate(bytes);
    fill(mine, bytes, seed_of(rank, 0, round));
    MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < ranks; peer++)
        check(all + (size_t)peer * bytes, bytes, seed_of(peer, 0, round), "allgather", peer);
    /* Everyone gets what the others have, whatever the algorithm. */
    sent_bytes += (int64_t)(ranks - 1) * (int64_t)bytes;
    free(all);
    free(mine);
}

static void alltoall(size_t bytes, int round)
{
    uint8_t *out = allocate((size_t)ranks * bytes), *in = allocate((size_t)ranks * bytes);
    for (int peer = 0; peer < ranks; peer++)
        fill(out + (size_t)peer * bytes, bytes, seed_of(rank, peer, round));
    MPI_Alltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < ranks; peer++)
        check(in + (size_t)peer * bytes, bytes, seed_of(peer, rank, round), "alltoall", peer);
    sent_bytes += (int64_t)(ranks - 1) * (int64_t)bytes;
    free(out);
    free(in);
}

/* Sums of 64-bit integers: exact in every order of addition. */
static void allreduce(size_t bytes, int round)
{
    size_t count = bytes < sizeof(int64_t) ? 1 : bytes / sizeof(int64_t);
    int64_t *mine = allocate(count * sizeof *mine), *sum = allocate(count * sizeof *sum);
    for (size_t i = 0; i < count; i++)
        mine[i] = (int64_t)(rank + 1) * (int64_t)(i + (size_t)round);
    MPI_Allreduce(mine, sum, (int)count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    int64_t weights = (int64_t)ranks * (ranks + 1) / 2;
    for (size_t i = 0; i < count; i++)
        if (sum[i] != weights * (int64_t)(i + (size_t)round))
            fail("allreduce", bytes, rank);
    free(mine);
    free(sum);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3) {
        fprintf(stderr, "usage: %s MAX_BYTES ROUNDS\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    size_t max_bytes = strtoul(argv[1], NULL, 10);
    int rounds = atoi(argv[2]);
    uint8_t *out = allocate(max_bytes), *in = allocate(max_bytes);
    for (size_t bytes = 1; bytes <= max_bytes; bytes *= 4)
        for (int round = 0; round < rounds; round++) {
            if (ranks % 2 == 0)
                ring(out, in, bytes, round);
            window(bytes, round);
            probe(out, in, bytes, round);
            allgather(bytes, round);
            alltoall(bytes, round);
            allreduce(bytes, round);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    int64_t all = 0;
    MPI_Reduce(&sent_bytes, &all, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("sent %lld\n", (long long)all);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
