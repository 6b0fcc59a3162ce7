// Which calls are taken for ones that never return.
#include "trainer/cuda/call_watch.hpp"

#include <catch2/catch.hpp>
#include <future>
#include <string>

#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "trainer/cuda/guarded_gpu.hpp"

namespace ddprun::trainer::cuda {
namespace {

using namespace std::chrono_literals;
using Scope = CallWatch::Scope;

/// What a watch reports, for a test that waits for it within the call.
class Report {
 public:
  CallWatch::LateFunction function() {
    return [this](const char* call, std::chrono::duration<double> waited) {
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

TEST_CASE("calls that return, and those that look around meanwhile, are never late") {
  bool is_late = false;
  {
    CallWatch watch(10s, [&](const char*, auto) { is_late = true; });
    const Scope none(nullptr, "unwatched");
    const Scope scope(&watch, "a wait");
    for (int i = 0; i < 100; ++i) watch.progress();
  }
  CHECK_FALSE(is_late);
}

TEST_CASE("a GPU under a watch does what it is asked, and its waits count from look to look") {
  bool is_late = false;
  CallWatch watch(20s, [&](const char*, auto) { is_late = true; });
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

TEST_CASE("the watch of a GPU that hangs still ends its waits, under a limit for calls") {
  CallWatch watch(20s, [](const char*, auto) {});
  const auto gpu = make_guarded_gpu(
      std::make_unique<test::EmulatedGpu>(test::EmulatedGpuSettings{.hangs_at = 1}), watch);
  gpu->set_watch([](auto) { throw DeviceError("it hangs"); });
  std::byte* const memory = gpu->allocate(sizeof(float));
  gpu->launch(Stream::compute, launch_of(AddValues<float>{reinterpret_cast<float*>(memory),
                                                          reinterpret_cast<float*>(memory),
                                                          reinterpret_cast<float*>(memory), 1},
                                         1));
  CHECK_THROWS_WITH(gpu->synchronize(Stream::compute), "it hangs");
}

}  // namespace
}  // namespace ddprun::trainer::cuda
