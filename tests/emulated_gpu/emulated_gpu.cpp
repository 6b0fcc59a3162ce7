#include "tests/emulated_gpu/emulated_gpu.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/emulated_gpu/emulated_kernels.hpp"
#include "tests/emulated_gpu/emulated_libraries.hpp"

namespace ddprun::trainer::test {

using cuda::GpuError;
using cuda::Stream;

namespace {

std::size_t index_of(Stream stream) { return static_cast<std::size_t>(stream); }
std::size_t index_of(cuda::Event event) { return static_cast<std::size_t>(event); }

void sleep_a_little() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

}  // namespace

EmulatedGpu::EmulatedGpu(EmulatedGpuSettings settings)
    : settings_(settings),
      random_(settings.seed),
      forgotten_wait_(settings.forgotten_wait),
      memory_(settings.memory - settings.used) {
  is_partial_ = draw() % 2 == 0;
  favourite_ = draw() % cuda::kStreams;
  for (std::size_t stream = 0; stream < native_.size(); ++stream) {
    native_[stream].enqueue = [this, stream](std::function<bool()> attempt) {
      Work work{.kind = Work::Kind::attempt, .run = {}, .attempt = std::move(attempt)};
      add(static_cast<Stream>(stream), std::move(work));
    };
  }
}

cuda::GpuFacts EmulatedGpu::facts() const {
  return {.name = "emulated GPU",
          .uuid = fmt::format("GPU-00000000-0000-0000-0000-{:012}", settings_.number),
          .capability = 90,
          .memory = settings_.memory,
          .libraries = "no CUDA"};
}

/// splitmix64 (Steele, Lea, Flood 2014).
std::uint64_t EmulatedGpu::draw() {
  std::uint64_t z = (random_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// ---- memory ----

std::byte* EmulatedGpu::allocate(std::size_t bytes) {
  refuse_in_capture("allocate");
  watch_.check();
  try {
    return memory_.allocate(bytes);
  } catch (const std::bad_alloc&) {
    throw cuda::OutOfGpuMemory(
        fmt::format("{} bytes were asked for, but this emulated GPU is full", bytes));
  }
}

void EmulatedGpu::release(std::byte* memory) {
  refuse_in_capture("release");
  if (finish_all()) memory_.release(memory);
}

/// False: the watch threw meanwhile, now or before, and the memory is to be kept.
bool EmulatedGpu::finish_all() {
  if (!may_free()) return false;
  free_blocking();
  return true;
}

bool EmulatedGpu::may_free() noexcept {
  return watch_.may_free([&] {
    for (int stream = 0; stream < cuda::kStreams; ++stream)
      synchronize(static_cast<Stream>(stream));
  });
}

/// As cudaFree(): for all streams, for ever if one hangs.
void EmulatedGpu::free_blocking() {
  const EmulatedMemory::Access access(memory_);
  const auto is_idle = [](const auto& queue) { return queue.empty(); };
  while (!std::all_of(queues_.begin(), queues_.end(), is_idle)) {
    if (!run_some(queues_)) throw GpuError("release: the streams wait for each other for ever");
    if (std::exchange(attempted_in_vain_, false)) sleep_a_little();
  }
}

std::byte* EmulatedGpu::allocate_pinned(std::size_t bytes) {
  refuse_in_capture("allocate_pinned");
  watch_.check();
  auto memory = std::make_unique<std::byte[]>(bytes);
  std::byte* const data = memory.get();
  pinned_.emplace(data, std::move(memory));
  return data;
}

void EmulatedGpu::release_pinned(std::byte* memory) {
  if (finish_all()) pinned_.erase(memory);
}

void EmulatedGpu::copy_in(Stream stream, const std::byte* pinned, void* to, std::size_t bytes) {
  memory_.require(to, bytes, "copy_in");
  if (memory_.holds(pinned)) throw GpuError("copy_in: from the GPU's memory");
  ++calls_;
  run(stream, [=] { std::memcpy(to, pinned, bytes); });
}

void EmulatedGpu::copy_out(Stream stream, const void* from, std::byte* pinned, std::size_t bytes) {
  memory_.require(from, bytes, "copy_out");
  if (memory_.holds(pinned)) throw GpuError("copy_out: to the GPU's memory");
  ++calls_;
  run(stream, [=] { std::memcpy(pinned, from, bytes); });
}

void EmulatedGpu::copy(Stream stream, const void* from, void* to, std::size_t bytes) {
  memory_.require(from, bytes, "copy");
  memory_.require(to, bytes, "copy");
  ++calls_;
  run(stream, [=] { std::memmove(to, from, bytes); });
}

void EmulatedGpu::clear(Stream stream, void* memory, std::size_t bytes) {
  memory_.require(memory, bytes, "clear");
  ++calls_;
  run(stream, [=] { std::memset(memory, 0, bytes); });
}

// ---- order ----

void EmulatedGpu::add(Stream stream, Work work) {
  if (capturing_ && captures_[index_of(stream)]) {
    captured_[index_of(stream)].push_back(std::move(work));
    return;
  }
  queues_[index_of(stream)].push_back(std::move(work));
  // Sometimes the GPU is quick, sometimes it has not even begun when the host waits for it.
  if (draw() % 8 != 0) return;
  const EmulatedMemory::Access access(memory_);
  while (draw() % 8 != 0 && run_some(queues_)) {
  }
}

void EmulatedGpu::run(Stream stream, std::function<void()> work) {
  add(stream, {.kind = Work::Kind::run, .run = std::move(work), .attempt = {}});
}

bool EmulatedGpu::is_blocked(const Work& work) const {
  return work.kind == Work::Kind::wait && events_[work.event].come < work.ticket;
}

/// Any of them; or, for every other seed, nearly always the one that comes first in an order of the
/// seed's own: some GPUs let a stream wait for very long.
std::size_t EmulatedGpu::choose(const std::vector<std::size_t>& ready) {
  if (!is_partial_ || draw() % 64 == 0) return ready[draw() % ready.size()];
  return *std::max_element(ready.begin(), ready.end(), [&](std::size_t a, std::size_t b) {
    return (a + favourite_) % cuda::kStreams < (b + favourite_) % cuda::kStreams;
  });
}

/// One piece of work of a stream that can go on; false: there is none.
bool EmulatedGpu::run_some(Queues& queues) {
  std::vector<std::size_t> ready;
  for (std::size_t stream = 0; stream < queues.size(); ++stream)
    if (!queues[stream].empty() && !is_blocked(queues[stream].front())) ready.push_back(stream);
  if (ready.empty()) return false;
  std::deque<Work>& queue = queues[choose(ready)];
  if (queue.front().kind == Work::Kind::attempt) {
    const EmulatedMemory::Access access(memory_);
    const bool is_done = queue.front().attempt();
    if (is_done) queue.pop_front();
    attempted_in_vain_ = !is_done;
    return true;
  }
  const Work work = std::move(queue.front());
  queue.pop_front();
  if (work.kind == Work::Kind::run) {
    const EmulatedMemory::Access access(memory_);
    work.run();
    ++work_done_;
  } else if (work.kind == Work::Kind::record) {
    events_[work.event].come = work.ticket;
    events_[work.event].came_at = std::chrono::steady_clock::now();
  }
  return true;
}

void EmulatedGpu::run_until(const std::function<bool()>& done, const char* call) {
  refuse_in_capture(call);
  if (done()) return;
  const EmulatedMemory::Access access(memory_);
  const auto began = std::chrono::steady_clock::now();
  while (!done()) {
    if (!run_some(queues_))
      throw GpuError(fmt::format("{}: the streams wait for each other for ever", call));
    wait_a_little(began);
  }
}

/// For another process, where the last work waited for one.
void EmulatedGpu::wait_a_little(std::chrono::steady_clock::time_point began) {
  if (!std::exchange(attempted_in_vain_, false)) return;
  sleep_a_little();
  watch_.look(std::chrono::steady_clock::now() - began);
}

void* EmulatedGpu::native(Stream stream) { return &native_[index_of(stream)]; }

double EmulatedGpu::seconds_between(cuda::Event first, cuda::Event last) {
  const std::chrono::duration<double> took =
      events_.at(index_of(last)).came_at - events_.at(index_of(first)).came_at;
  return took.count();
}

cuda::Event EmulatedGpu::make_event() {
  events_.emplace_back();
  return static_cast<cuda::Event>(events_.size() - 1);
}

void EmulatedGpu::record(cuda::Event event, Stream stream) {
  EventState& state = events_.at(index_of(event));
  ++state.recorded;
  if (capturing_ && captures_[index_of(stream)]) recorded_in_capture_[index_of(event)] = 1;
  add(stream, {.kind = Work::Kind::record,
               .run = {},
               .attempt = {},
               .event = index_of(event),
               .ticket = state.recorded});
}

void EmulatedGpu::wait(Stream stream, cuda::Event event) {
  if (++waits_ == forgotten_wait_) return;
  // A stream that waits for what is captured is captured, too.
  if (capturing_ && recorded_in_capture_.contains(index_of(event)))
    captures_[index_of(stream)] = true;
  const std::uint64_t ticket = events_.at(index_of(event)).recorded;
  add(stream, {.kind = Work::Kind::wait,
               .run = {},
               .attempt = {},
               .event = index_of(event),
               .ticket = ticket});
}

bool EmulatedGpu::has_come(cuda::Event event) {
  refuse_in_capture("has_come");
  if (draw() % 2 == 0) run_some(queues_);
  const EventState& state = events_.at(index_of(event));
  return state.come >= state.recorded;
}

void EmulatedGpu::synchronize(cuda::Event event) {
  ++host_waits_;
  const EventState& state = events_.at(index_of(event));
  const std::uint64_t ticket = state.recorded;
  run_until([&] { return events_[index_of(event)].come >= ticket; }, "synchronize (event)");
}

void EmulatedGpu::synchronize(Stream stream) {
  ++host_waits_;
  run_until([&] { return queues_[index_of(stream)].empty(); }, "synchronize (stream)");
}

void EmulatedGpu::reset() {
  for (auto& queue : queues_) queue.clear();
  watch_ = {};
  for (EventState& state : events_) state.come = state.recorded;
}

// ---- work ----

void EmulatedGpu::begin_work(Stream stream, const std::string& name) {
  ++calls_;
  if (capturing_) {
    ++captured_works_;  // which counts when it is replayed
  } else {
    count_works(stream, name, 1);
  }
}

/// The next ones.
void EmulatedGpu::count_works(Stream stream, const std::string& name, std::uint64_t count) {
  const std::uint64_t before = std::exchange(works_, works_ + count);
  if (before < settings_.hangs_at && settings_.hangs_at <= works_)
    add(stream, {.kind = Work::Kind::attempt, .run = {}, .attempt = [] { return false; }});
  while (before < settings_.blocks_at && settings_.blocks_at <= works_) ::pause();
  if (settings_.fails_at > 0 && works_ >= settings_.fails_at)
    throw GpuError(fmt::format("{} failed on emulated GPU {}, as the test has planned", name,
                               settings_.number));
}

void EmulatedGpu::launch(Stream stream, const cuda::Launch& launch) {
  const EmulatedKernel& kernel = emulated_kernel(launch.kernel);
  begin_work(stream, kernel.name);
  for (const std::uintptr_t word : kernel.words(launch))
    memory_.require_argument(word, kernel.name);
  run(stream, kernel.bind(launch));
}

void EmulatedGpu::multiply(Stream stream, const cuda::MatrixProduct& product) {
  begin_work(stream, "multiply");
  for (const void* address :
       {product.a.data, product.b.data, static_cast<const void*>(product.out)})
    memory_.require(address, 1, "multiply");
  run(stream, [product, tf32 = settings_.tf32] { emulate(product, tf32); });
}

std::size_t EmulatedGpu::workspace_bytes(cuda::ConvolutionPass /*pass*/,
                                         const cuda::ConvolutionShape& shape) {
  return static_cast<std::size_t>(shape.batch) * 64;  // so that its place is right
}

void EmulatedGpu::convolve(Stream stream, const cuda::ConvolutionCall& call) {
  begin_work(stream, "convolve");
  for (const void* address : {call.input, call.weight, call.output, call.workspace})
    memory_.require(address, 1, "convolve");
  run(stream, [call, bytes = workspace_bytes(call.pass, call.shape), tf32 = settings_.tf32] {
    std::memset(call.workspace, 0xff, bytes);
    emulate(call, tf32);
  });
}

std::size_t EmulatedGpu::pending(Stream stream) const { return queues_[index_of(stream)].size(); }

}  // namespace ddprun::trainer::test
