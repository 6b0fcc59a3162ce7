// The floor of bench_launch: starts N copies of a program by posix_spawn and waits for them. No
// launcher can be faster by much; what ddprun does beyond this is its price.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int copies = std::atoi(argv[1]);
  for (int i = 0; i < copies; ++i) {
    pid_t pid = 0;
    if (posix_spawn(&pid, argv[2], nullptr, nullptr, argv + 2, environ) != 0) return 1;
  }
  int status = 0;
  int failed = 0;
  while (wait(&status) > 0) failed |= status;
  return failed == 0 ? 0 : 1;
}
