// One rendezvous service and its journal on a disk, which is played.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/service/service_core.hpp"
#include "tests/sim/sim_process.hpp"
#include "tests/sim/world.hpp"

namespace ddprun::sim {

/// What a service that comes back finds of its journal.
enum class Disk {
  kept,
  lost,
  flipped,  ///< all but a bit
  old,      ///< a copy of an earlier time, which was put back
};

class SimService : public SimProcess, public SimRendezvous {
 public:
  /// `after`: when events were taken.
  SimService(World& world, ServicePlan plan, std::function<void()> after);

  /// Its process ends; it comes back after a time.
  void crash(Duration away, Disk disk);
  /// Nothing can be written for a time. A crash meanwhile loses the journal, which lacks something.
  void fill_disk(Duration lasts);
  /// It is back at once, the disk has room, and no crash is to come.
  void heal() override;
  [[nodiscard]] bool is_up() const override { return core_.has_value(); }
  [[nodiscard]] std::vector<SimProcess*> places() override { return {this}; }
  [[nodiscard]] const rdzv::Job* job() const override { return job_of_core(); }
  [[nodiscard]] const std::string& broken() const override { return broken_; }
  [[nodiscard]] std::vector<rdzv::JobRecord> take_records() override {
    return std::exchange(records_, {});
  }
  /// The next crash comes in the middle of what it does: what is durable was not told.
  void crash_while_telling(Duration away) { crash_while_telling_ = away; }
  /// The next crash comes in the middle of what it writes: some of that is cut.
  void crash_while_writing(Duration away) { crash_while_writing_ = away; }

 private:
  std::vector<rdzv::JobRecord> restore();
  [[nodiscard]] rdzv::ServiceCore replayed(const std::vector<rdzv::JobRecord>& records) const;
  void write(const rdzv::ServiceActions& actions);
  void forget();
  void flip_bit();
  void begin();
  void on(const rdzv::ServiceEvent& event) override;
  void come_back();
  void make_room();
  void obey(rdzv::ServiceActions& actions);

  std::function<void()> after_;
  std::string disk_;       // a journal
  std::string old_disk_;   // a copy of an earlier time
  std::string unwritten_;  // of it, while the disk is full
  bool disk_full_ = false;
  bool is_forgotten_ = false;     // the job, by the journal
  bool has_clock_ = false;        // the journal's file of its own, which says that nothing was lost
  Disk disk_later_ = Disk::kept;  // what it finds when it comes back
  std::optional<Known> before_crash_;  // if the journal has all of it
  std::optional<std::chrono::nanoseconds>
      lease_of_workers_;  // what its file says, without a journal
  std::vector<rdzv::JobRecord> records_;
  std::optional<Duration> crash_while_telling_;
  std::optional<Duration> crash_while_writing_;
};

}  // namespace ddprun::sim
