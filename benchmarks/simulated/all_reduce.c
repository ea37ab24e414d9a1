/* Sums so many floats over all ranks, once, and says how long that took in the simulated time of SimGrid's SMPI. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    int rank;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_t floats = strtoul(words[1], NULL, 10);
    float *mine = SMPI_SHARED_MALLOC(floats * sizeof *mine); /* one buffer for all ranks: its values mean nothing */
    float *sums = SMPI_SHARED_MALLOC(floats * sizeof *sums);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    MPI_Allreduce(mine, sums, (int)floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double own = MPI_Wtime() - begun, last = 0;
    MPI_Reduce(&own, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("seconds %.9f\n", last);
    SMPI_SHARED_FREE(mine);
    SMPI_SHARED_FREE(sums);
    MPI_Finalize();
    return 0;
}
