#include "launcher/ctl/device_watch.hpp"

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>

#include "base/start_thread.hpp"
#include "machine/devices/devices.hpp"

namespace ddprun::ctl {
namespace {

constexpr std::chrono::milliseconds kThreadLimit{500};

std::vector<std::string> entries_of(const std::string& devices) {
  std::vector<std::string> entries;
  for (std::size_t begin = 0; begin <= devices.size();) {
    const std::size_t end = std::min(devices.find(',', begin), devices.size());
    entries.push_back(devices.substr(begin, end - begin));
    begin = end + 1;
  }
  return entries;
}

}  // namespace

DeviceUse use_of(const std::string& devices, const std::vector<machine::Gpu>& gpus,
                 const std::function<machine::GpuLoad(const std::string& uuid)>& load_of) {
  const machine::GpuDiscovery known{gpus, {}, {}};
  double percent = 0;
  std::uint64_t bytes = 0;
  bool knows_percent = true;
  bool knows_bytes = true;
  const std::vector<std::string> entries = entries_of(devices);
  for (const std::string& entry : entries) {
    const machine::Gpu* const gpu = machine::find_gpu(known, entry);
    if (gpu == nullptr || gpu->uuid.empty()) return {};
    const machine::GpuLoad load = load_of(gpu->uuid);
    percent += load.percent.value_or(0);
    bytes += load.used_bytes.value_or(0);
    knows_percent = knows_percent && load.percent;
    knows_bytes = knows_bytes && load.used_bytes;
  }
  DeviceUse use;
  if (knows_percent) use.percent = percent / static_cast<double>(entries.size());
  if (knows_bytes) use.used_bytes = bytes;
  return use;
}

struct DeviceWatch::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  enum class State { unstarted, idle, asked, ended } state = State::unstarted;
  bool is_stopping = false;
  std::vector<std::string> devices;
  DeviceUses uses;
};

DeviceWatch::DeviceWatch() : shared_(std::make_shared<Shared>()) {}

DeviceWatch::~DeviceWatch() {
  std::unique_lock lock(shared_->mutex);
  shared_->is_stopping = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, kThreadLimit, [this] {
    return shared_->state == Shared::State::unstarted || shared_->state == Shared::State::ended;
  });
}

void DeviceWatch::ask(std::vector<std::string> devices) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->state == Shared::State::unstarted) {
    if (devices.empty() || !machine::gpus_likely()) return;
    auto thread = start_thread("nvml", [shared = shared_] { work(shared); });
    if (!thread) return;
    thread->detach();  // the driver may never return
  } else if (shared_->state != Shared::State::idle) {
    return;
  }
  shared_->devices = std::move(devices);
  shared_->state = Shared::State::asked;
  shared_->changed.notify_all();
}

DeviceUses DeviceWatch::newest() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->uses;
}

void DeviceWatch::work(const std::shared_ptr<Shared>& shared) {
  using State = Shared::State;
  {
    const auto nvml = machine::Nvml::open(machine::GpuPlaces{}.nvml);
    const auto gpus = nvml ? nvml->gpus() : nvml.error();
    std::unique_lock lock(shared->mutex);
    while (gpus && !shared->is_stopping) {
      if (shared->state != State::asked) {
        shared->changed.wait(lock);
        continue;
      }
      DeviceUses uses;
      lock.unlock();
      for (const std::string& devices : shared->devices)  // nobody changes them meanwhile
        uses[devices] =
            use_of(devices, *gpus, [&](const std::string& uuid) { return nvml->load_of(uuid); });
      lock.lock();
      shared->uses = std::move(uses);
      shared->state = State::idle;
    }
  }
  const std::lock_guard lock(shared->mutex);
  shared->state = State::ended;
  shared->changed.notify_all();
}

}  // namespace ddprun::ctl
