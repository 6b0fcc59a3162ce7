// A journal in a folder: a file for each job (rendezvous/service/journal_format.hpp).
//
//   FOLDER/lock                       held by the process that uses the folder; its pid
//   FOLDER/clock                      which boot the service's clock belongs to, and its shift
//   FOLDER/RUN_ID.journal             one job
//   FOLDER/RUN_ID.journal.new         is to take its place, and is not whole yet
//   FOLDER/RUN_ID.journal.incomplete  lacks what could not be written: no use after a restart
//   FOLDER/RUN_ID.journal.damaged     set aside when it was read
//
// Only a write that was made durable was told to anybody. So a file that cannot be written any more
// must not be taken for the whole past later: it gets another name until it is whole again.
//
// A snapshot and what came after it are written to a new file, which gets the name of the old one
// when it is durable. Where that fails, the old one goes on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/system/result.hpp>

#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "rendezvous/service/journal.hpp"

namespace ddprun::rdzv {

class FileJournal : public Journal {
 public:
  /// What waits in memory to be written again, of one job; beyond that its file is given up.
  static constexpr std::size_t kPendingBytesMax = std::size_t{64} << 20;

  /// Makes the folder, if there is none, and locks it. The error is a whole sentence.
  /// `boot_id`: of the running kernel; empty: not known. `boot_time`: now, by base/boot_clock.hpp.
  static boost::system::result<std::shared_ptr<FileJournal>, std::string> open(
      const std::string& folder, std::string boot_id, Clock::time_point boot_time);

  JournalPast take_past() override { return std::move(past_); }
  void append(const JobRecord& record) override;
  void replace(const JobSnapshot& snapshot) override;
  void forget(const std::string& run_id) override;
  std::vector<std::string> commit() override;
  [[nodiscard]] bool is_durable() const override { return faulty_.empty(); }

 private:
  struct File {
    std::string name;           // in the folder; empty: there is none yet
    std::uint64_t durable = 0;  // bytes of it
    std::string pending;        // after these
    std::string fresh;          // a whole journal, to take the place of both; empty: there is none
    bool incomplete = false;    // it has that name
    bool given_up = false;      // nothing is written until the job is forgotten
  };
  using Files = std::map<std::string, File>;

  FileJournal(std::string folder, UniqueFd directory, UniqueFd lock)
      : folder_(std::move(folder)), directory_(std::move(directory)), lock_(std::move(lock)) {}

  void read_past(const std::string& boot_id, Clock::time_point boot_time);
  void read_job(const std::string& name);
  [[nodiscard]] std::optional<Clock::duration> read_clock(const std::string& boot_id) const;
  ErrorCode write_clock();
  void save(const std::string& run_id, File& file, std::vector<std::string>& lines);
  ErrorCode create(const std::string& run_id, File& file);
  ErrorCode write(File& file);
  ErrorCode write_new(const std::string& name, std::string_view bytes) const;
  ErrorCode write_fresh(const std::string& run_id, File& file, std::vector<std::string>& lines);
  void mark_incomplete(File& file);
  ErrorCode rename_to(const std::string& from, const std::string& to);

  const std::string folder_;
  const UniqueFd directory_;
  const UniqueFd lock_;
  JournalPast past_;
  std::string clock_;  // the file's text
  Files files_;
  std::map<std::string, File*> touched_;  // by run id; these and the faulty ones are to be written
  std::map<std::string, File*> faulty_;
  bool told_ = false;  // that something is not durable
};

}  // namespace ddprun::rdzv
