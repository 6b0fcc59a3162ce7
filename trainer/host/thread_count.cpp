#include "trainer/host/thread_count.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "trainer/error.hpp"
#include "trainer/host/onednn.hpp"

#ifdef _OPENMP
#include <omp.h>
#else
#include <oneapi/dnnl/dnnl_threadpool.hpp>

#include "trainer/host/thread_team.hpp"
#endif

namespace ddprun::trainer {

#ifdef _OPENMP

void set_thread_count(int threads) {
  if (threads < 1) throw DataError("a shard needs at least one thread");
  if (omp_get_thread_limit() < threads) {
    throw DataError("OMP_THREAD_LIMIT=" + std::to_string(omp_get_thread_limit()) + " forbids the " +
                    std::to_string(threads) +
                    " threads that each shard of this run uses; unset it or raise it");
  }
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
}

int thread_count() { return omp_get_max_threads(); }

dnnl::stream& onednn::stream() {
  thread_local dnnl::stream stream(cpu());
  return stream;
}

#else

namespace {

/// The threads of one calling thread, as oneDNN wants to see them.
class Team final : public dnnl::threadpool_interop::threadpool_iface {
 public:
  explicit Team(int threads) : team_(threads) {}

  [[nodiscard]] int get_num_threads() const override { return team_.threads(); }
  [[nodiscard]] bool get_in_parallel() const override { return ThreadTeam::inside(); }
  void parallel_for(int n, const std::function<void(int, int)>& fn) override {
    team_.run(n, [&](int i) { fn(i, n); });
  }
  [[nodiscard]] std::uint64_t get_flags() const override { return 0; }  // not ASYNCHRONOUS

 private:
  ThreadTeam team_;
};

struct OwnThreads {
  std::unique_ptr<Team> team;  // null: the calling thread alone
  dnnl::stream stream = dnnl::threadpool_interop::make_stream(onednn::cpu(), nullptr);
};

OwnThreads& own_threads() {
  thread_local OwnThreads threads;
  return threads;
}

}  // namespace

void set_thread_count(int threads) {
  if (threads < 1) throw DataError("a shard needs at least one thread");
  dnnl_threadpool_interop_set_max_concurrency(threads);  // of primitives that are made from now on
  if (threads == thread_count()) return;
  OwnThreads& own = own_threads();
  auto team = threads > 1 ? std::make_unique<Team>(threads) : nullptr;
  own.stream = dnnl::threadpool_interop::make_stream(onednn::cpu(), team.get());
  own.team = std::move(team);
}

int thread_count() {
  const auto& team = own_threads().team;
  return team ? team->get_num_threads() : 1;
}

void for_ranges(int count, const std::function<void(int begin, int end)>& range) {
  const auto& team = own_threads().team;
  const int ranges = std::min(thread_count(), count);
  if (ranges <= 1) return range(0, count);
  const auto begin_of = [&](int i) {
    return static_cast<int>(static_cast<std::int64_t>(count) * i / ranges);
  };
  team->parallel_for(ranges, [&](int i, int /*n*/) { range(begin_of(i), begin_of(i + 1)); });
}

dnnl::stream& onednn::stream() { return own_threads().stream; }

#endif

}  // namespace ddprun::trainer
