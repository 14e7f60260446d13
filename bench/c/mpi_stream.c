/*
 * Goodput from one MPI rank to another that do nothing else, in Gbit/s.
 *
 *   mpi_stream BYTES MESSAGES      on two ranks; rank 0 prints it
 *
 * A window of messages is under way, each in a buffer of its own; the receiver answers every window.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WINDOW = 16, ANSWER = 1 };

/* Connections, registrations and caches settle first: this share of the windows. */
enum { WARM_UP_DIVISOR = 10 };

static void windows(int rank, char *data, int bytes, long count)
{
    MPI_Request requests[WINDOW];
    char answer = 0;
    for (long i = 0; i < count; i++) {
        for (int k = 0; k < WINDOW; k++) {
            char *own = data + (size_t)k * (size_t)bytes;
            if (rank == 0)
                MPI_Isend(own, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[k]);
            else
                MPI_Irecv(own, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[k]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(&answer, 1, MPI_BYTE, 1, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&answer, 1, MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
    }
}

/* What rank 0 sends is not what rank 1 has before. */
static int all_arrived(const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != 's')
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int bytes = argc == 3 ? atoi(argv[1]) : 0;
    long count = argc == 3 ? (atol(argv[2]) + WINDOW - 1) / WINDOW : 0;
    size_t all = (size_t)WINDOW * (size_t)(bytes > 0 ? bytes : 0);
    char *data = all ? malloc(all) : NULL;
    if (!data || count <= 0 || ranks != 2) {
        fprintf(stderr, "usage: mpirun -np 2 %s BYTES MESSAGES\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t i = 0; i < all; i++)
        data[i] = rank == 0 ? 's' : 'r';
    windows(rank, data, bytes, count / WARM_UP_DIVISOR + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    windows(rank, data, bytes, count);
    double seconds = MPI_Wtime() - start;
    if (rank == 1 && !all_arrived(data, all)) {
        fprintf(stderr, "%s: a byte never arrived\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("%.3f\n", (double)count * (double)all * 8 / seconds / 1e9);
    free(data);
    MPI_Finalize();
    return 0;
}
