// The communicator of a world of one: every sum is there already.
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include "trainer/comm/communicator.hpp"
#include "trainer/compute/device.hpp"

namespace ddprun::trainer {

class LocalCommunicator : public Communicator {
 public:
  /// In the host's memory.
  explicit LocalCommunicator(std::size_t arena_floats);
  /// `arena`: a device's, which outlives the communicator.
  explicit LocalCommunicator(DeviceMemory arena, SumOrder order = SumOrder::tree)
      : memory_(std::move(arena)), arena_(memory_.as<float>()), order_(order) {}
  ~LocalCommunicator() override = default;
  LocalCommunicator(const LocalCommunicator&) = delete;
  LocalCommunicator& operator=(const LocalCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int world_size() const override { return 1; }
  [[nodiscard]] SumOrder order() const override { return order_; }
  [[nodiscard]] std::span<float> arena(int slot) override;
  Ticket start(int bucket, Range range) override;
  void progress() override {}
  CommResult finish(Ticket ticket, Clock::time_point deadline) override;
  CommResult broadcast(std::span<std::byte> bytes, int root, Clock::time_point deadline) override;
  CommResult all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                        Clock::time_point deadline) override;
  CommResult barrier(Clock::time_point deadline) override;
  void abort(const std::string& reason) override;

 private:
  CommResult result();

  DeviceMemory memory_;
  std::span<float> arena_;
  SumOrder order_;
  Ticket last_started_ = 0;
  std::mutex mutex_;  // abort() may come from another thread
  bool aborted_ = false;
  std::string reason_;
};

}  // namespace ddprun::trainer
