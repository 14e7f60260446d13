/*
 * Half a round trip between two MPI ranks that do nothing else, in microseconds.
 *
 *   mpi_pingpong BYTES ROUND_TRIPS      on two ranks; rank 0 prints the mean
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Connections, registrations and caches settle first: this share of the round trips. */
enum { WARM_UP_DIVISOR = 10 };

static void round_trips(int rank, char *data, int bytes, long count)
{
    for (long i = 0; i < count; i++) {
        if (rank == 0) {
            MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int bytes = argc == 3 ? atoi(argv[1]) : 0;
    long count = argc == 3 ? atol(argv[2]) : 0;
    char *data = bytes > 0 ? calloc(1, (size_t)bytes) : NULL;
    if (!data || count <= 0 || ranks != 2) {
        fprintf(stderr, "usage: mpirun -np 2 %s BYTES ROUND_TRIPS\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    round_trips(rank, data, bytes, count / WARM_UP_DIVISOR);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    round_trips(rank, data, bytes, count);
    double seconds = MPI_Wtime() - start;
    if (rank == 0)
        printf("%.3f\n", seconds * 1e6 / (double)count / 2);
    free(data);
    MPI_Finalize();
    return 0;
}
