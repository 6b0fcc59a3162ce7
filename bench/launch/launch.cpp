// How long it takes to start N workers that end at once: ddprun against the spawn/wait floor, and
// against torchrun and mpirun where they are installed, and another ddprun where one is named, such
// as that of the packages. Interleaved rounds; medians and ratios to the floor.
#include <cstring>
#include <string>
#include <vector>

#include "bench/support/measure.hpp"

namespace bench = ddprun::bench;

namespace {

struct Contender {
  std::string name;
  std::vector<std::string> command;
  int every = 1;  // take part in every n-th round only: some are slow
  std::vector<double> ms;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  const std::string workers = argc > 2 ? argv[2] : "8";
  if (rounds < 1 || std::atoi(workers.c_str()) < 1) {
    std::fprintf(stderr, "usage: bench_launch [ROUNDS=200] [WORKERS=8] [OTHER_DDPRUN]\n");
    return 2;
  }
  setenv("OMP_NUM_THREADS", "1", 1);  // else a note on stderr is timed too
  const std::string folder = bench::own_folder();
  std::vector<Contender> contenders{
      {"floor", {folder + "/bench_launch_floor", workers, "/bin/true"}, 1, {}},
      {"ddprun", {folder + "/ddprun", "--nproc-per-node", workers, "/bin/true"}, 1, {}},
      {"ddprun --output=raw",
       {folder + "/ddprun", "--output=raw", "--nproc-per-node", workers, "/bin/true"},
       1,
       {}}};
  if (argc > 3) {
    contenders.push_back(
        {"other ddprun", {argv[3], "--nproc-per-node", workers, "/bin/true"}, 1, {}});
  }
  if (const std::string mpirun = bench::find_program({"mpirun"}); !mpirun.empty()) {
    contenders.push_back(
        {"mpirun",
         {mpirun, "--allow-run-as-root", "--oversubscribe", "-n", workers, "/bin/true"},
         10,
         {}});
  }
  const std::string torchrun = bench::find_working("torchrun", {"--no-python", "/bin/true"});
  if (!torchrun.empty()) {
    contenders.push_back(
        {"torchrun", {torchrun, "--no-python", "--nproc-per-node", workers, "/bin/true"}, 50, {}});
  }
  for (int round = 0; round < rounds; ++round) {
    for (Contender& contender : contenders) {
      if (round % contender.every != 0) continue;
      const double ms = bench::run_ms(contender.command);
      if (ms < 0) {
        std::fprintf(stderr, "bench_launch: %s did not end with exit code 0\n",
                     contender.name.c_str());
        return 1;
      }
      contender.ms.push_back(ms);
    }
  }
  const double floor = bench::median(contenders.front().ms);
  std::printf("%s workers of /bin/true, medians of interleaved rounds\n", workers.c_str());
  std::printf("%-22s %8s %10s %10s %10s\n", "", "rounds", "median ms", "p90 ms", "x floor");
  for (const Contender& contender : contenders) {
    std::printf("%-22s %8zu %10.2f %10.2f %10.2f\n", contender.name.c_str(), contender.ms.size(),
                bench::median(contender.ms), bench::quantile(contender.ms, 0.9),
                bench::median(contender.ms) / floor);
  }
}
