// Which calls are taken for ones that never return.
#include "trainer/cuda/call_watch.hpp"

#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <thread>

#include "tests/emulated_gpu/emulated_gpu.hpp"

namespace ddprun::trainer::cuda {
namespace {

using namespace std::chrono_literals;
using Scope = CallWatch::Scope;

/// What a watch reports, for a test that waits for it within the call.
class Report {
 public:
  CallWatch::LateFunction function() {
    return [this](const std::string& call, std::chrono::duration<double> waited) {
      waited_ = waited;
      name_.set_value(call);
    };
  }
  std::string wait() {
    auto name = name_.get_future();
    return name.wait_for(60s) == std::future_status::ready ? name.get() : "nothing";
  }
  [[nodiscard]] std::chrono::duration<double> waited() const { return waited_; }

 private:
  std::promise<std::string> name_;
  std::chrono::duration<double> waited_{};
};

TEST_CASE("a call that does not return is reported with its name, not before its limit") {
  Report report;
  CallWatch watch(50ms, report.function());
  { const Scope before(&watch, "a call that returns"); }
  const Scope scope(&watch, "a call that hangs");
  CHECK(report.wait() == "a call that hangs");
  CHECK(report.waited() >= 50ms);
}

TEST_CASE("of calls within calls the innermost is reported, and behind it the outer one again") {
  Report inner;
  CallWatch watch(30ms, inner.function());
  const Scope outer_scope(&watch, "outer");
  {
    const Scope scope(&watch, "inner");
    CHECK(inner.wait() == "inner");
  }
  Report outer;
  CallWatch other(30ms, outer.function());
  const Scope again(&other, "outer");
  { const Scope scope(&other, "inner"); }
  CHECK(outer.wait() == "outer");
}

TEST_CASE("what has happened before stands before the name of the call") {
  Report report;
  CallWatch watch(20ms, report.function());
  watch.happened("rank 1 ended");
  const Scope none(nullptr, "unwatched");
  const Scope scope(&watch, "the end of NCCL");
  CHECK(report.wait() == "rank 1 ended; then the end of NCCL");
}

TEST_CASE("a call is late once it has taken its limit, counted anew after each change") {
  CallClock clock(16s);
  CHECK(clock.every() == 1s);
  CallClock::Clock::time_point now{};
  // Looks in so many seconds, one each.
  const auto looks = [&](int seconds, std::uint64_t serial, bool is_called = true) {
    int late = 0;
    for (int i = 0; i < seconds; ++i) late += clock.is_late(now += 1s, serial, is_called) ? 1 : 0;
    return late;
  };
  CHECK(looks(16, 1) == 0);  // the first look begins it
  CHECK(looks(1, 1) == 1);
  CHECK(clock.waited() == 16s);
  CHECK(looks(16, 2) == 0);  // another call, or one that has looked around
  CHECK(looks(16, 3) == 0);
  CHECK(looks(100, 4, false) == 0);  // none
  CHECK(looks(16, 5) == 0);
  now += 1h;  // stopped, or asleep: of that two looks count
  CHECK(looks(15, 6) == 0);
  now += 1h;
  CHECK(looks(1, 6) == 1);
  CHECK(clock.waited() == 16s);
}

TEST_CASE("a GPU under a watch does what it is asked") {
  bool is_late = false;
  CallWatch watch(20s, [&](const std::string&, auto) { is_late = true; });
  const auto gpu = make_guarded_gpu(std::make_unique<test::EmulatedGpu>(), watch);
  std::byte* const memory = gpu->allocate(4);
  std::byte* const pinned = gpu->allocate_pinned(4);
  pinned[0] = std::byte{7};
  gpu->copy_in(Stream::copy, pinned, memory, 4);
  gpu->synchronize(Stream::copy);
  pinned[0] = std::byte{0};
  gpu->copy_out(Stream::copy, memory, pinned, 4);
  const Event event = gpu->make_event();
  gpu->record(event, Stream::copy);
  gpu->synchronize(event);
  CHECK(pinned[0] == std::byte{7});
  CHECK(gpu->has_come(event));
  gpu->release_pinned(pinned);
  gpu->release(memory);
  CHECK_FALSE(is_late);
}

TEST_CASE("the watch of a GPU that hangs still ends its waits, and its looks count as progress") {
  bool is_late = false;
  CallWatch watch(2s, [&](const std::string&, auto) { is_late = true; });
  const auto gpu = make_guarded_gpu(
      std::make_unique<test::EmulatedGpu>(test::EmulatedGpuSettings{.hangs_at = 1}), watch);
  gpu->set_watch([looks = 0](auto) mutable {
    std::this_thread::sleep_for(100ms);
    if (++looks == 25) throw DeviceError("it hangs");  // beyond the limit of calls
  });
  std::byte* const memory = gpu->allocate(sizeof(float));
  gpu->launch(Stream::compute, launch_of(AddValues<float>{reinterpret_cast<float*>(memory),
                                                          reinterpret_cast<float*>(memory),
                                                          reinterpret_cast<float*>(memory), 1},
                                         1));
  CHECK_THROWS_WITH(gpu->synchronize(Stream::compute), "it hangs");
  CHECK_FALSE(is_late);
}

}  // namespace
}  // namespace ddprun::trainer::cuda
