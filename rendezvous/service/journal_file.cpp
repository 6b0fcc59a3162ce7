#include "rendezvous/service/journal_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/file_lock.hpp"
#include "base/open_file.hpp"
#include "rendezvous/service/journal_format.hpp"

namespace ddprun::rdzv {

namespace {

constexpr std::string_view kSuffix = ".journal";
constexpr const char* kIncomplete = ".incomplete";
constexpr const char* kDamaged = ".damaged";
constexpr const char* kNew = ".new";
constexpr const char* kClock = "clock";
constexpr const char* kClockBegin = "ddprun clock 1";
/// Names of files have at most 255 bytes, our suffixes included.
constexpr std::size_t kNameBytesMax = 200;
constexpr std::size_t kFileBytesMax = std::size_t{1} << 30;

Result<std::string> read_file(int folder, const std::string& name) {
  const Result<UniqueFd> fd = open_own_file(name, O_RDONLY, 0, folder);
  if (!fd) return fd.error();
  struct stat status {};
  if (fstat(fd->get(), &status) != 0) return last_system_error();
  if (static_cast<std::size_t>(status.st_size) > kFileBytesMax)
    return make_error_code(boost::system::errc::file_too_large);
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t length = 0;
  while (length < bytes.size()) {
    const ssize_t count = read(fd->get(), bytes.data() + length, bytes.size() - length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return last_system_error();
    if (count == 0) break;
    length += static_cast<std::size_t>(count);
  }
  bytes.resize(length);
  return bytes;
}

ErrorCode write_all(int fd, std::string_view bytes, std::uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return last_system_error();
    bytes.remove_prefix(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
  return {};
}

std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  DIR* const entries = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries == nullptr) return names;
  while (const dirent* entry = readdir(entries)) names.emplace_back(entry->d_name);
  closedir(entries);
  std::sort(names.begin(), names.end());
  return names;
}

std::string in_use(const std::string& folder, int lock) {
  char text[32] = {};
  const ssize_t length = pread(lock, text, sizeof text - 1, 0);
  std::string_view pid(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  while (!pid.empty() && pid.back() == '\n') pid.remove_suffix(1);
  return fmt::format("the state folder {} is in use by {}: each rdzvd needs one of its own", folder,
                     pid.empty() ? "another process" : fmt::format("the process {}", pid));
}

}  // namespace

boost::system::result<std::shared_ptr<FileJournal>, std::string> FileJournal::open(
    const std::string& folder, std::string boot_id, Clock::time_point boot_time) {
  using Opened = boost::system::result<std::shared_ptr<FileJournal>, std::string>;
  const auto failed = [&](std::string why) {
    return Opened(boost::system::in_place_error, std::move(why));
  };
  const auto cannot = [&](const char* what, ErrorCode error = last_system_error()) {
    return failed(fmt::format("cannot {} the state folder {}: {}", what, folder, error.message()));
  };
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return cannot("make");
  UniqueFd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return cannot("open");
  Result<UniqueFd> lock_file = open_own_file("lock", O_RDWR | O_CREAT, 0600, directory.get());
  if (!lock_file) return cannot("lock", lock_file.error());
  UniqueFd lock = std::move(*lock_file);
  const LockOutcome locked = try_lock(lock);
  if (locked == LockOutcome::busy) return failed(in_use(folder, lock.get()));
  if (locked == LockOutcome::failed) return cannot("lock");
  // For people only: where it cannot be written, the lock holds nevertheless.
  [[maybe_unused]] const int cut = ftruncate(lock.get(), 0);
  static_cast<void>(write_all(lock.get(), fmt::format("{}\n", getpid()), 0));
  std::shared_ptr<FileJournal> journal(
      new FileJournal(folder, std::move(directory), std::move(lock)));
  journal->read_past(boot_id, boot_time);
  return Opened(boost::system::in_place_value, std::move(journal));
}

// ---- the past ----

void FileJournal::read_past(const std::string& boot_id, Clock::time_point boot_time) {
  const auto clock = read_clock(boot_id);
  past_.is_complete = read_file(directory_.get(), kClock).has_value();
  for (const std::string& name : names_in(directory_.get())) {
    if (name.ends_with(kSuffix)) {
      read_job(name);
    } else if (name.ends_with(std::string(kSuffix) + kIncomplete)) {
      past_.is_complete = false;
      past_.warnings.push_back(
          fmt::format("{}/{} could not be written to its end and is removed: the agents of this "
                      "job join again, and the job restarts once",
                      folder_, name));
      unlinkat(directory_.get(), name.c_str(), 0);
    } else if (name.ends_with(std::string(kSuffix) + kNew)) {
      unlinkat(directory_.get(), name.c_str(), 0);  // the old one is whole
    }
  }
  // By another boot's clock it is not known how long the service was away: then not at all, so that
  // all that is waited for lasts longer rather than shorter. That clock may be ahead or behind.
  std::optional<Clock::duration> shift = clock;
  for (const JobRecord& record : past_.records)
    shift = shift ? std::max(*shift, record.at - boot_time) : record.at - boot_time;
  past_.clock_shift = shift.value_or(Clock::duration{0});
  clock_ = fmt::format("{} {} {}\n", kClockBegin, boot_id.empty() ? "-" : boot_id,
                       past_.clock_shift.count());
  if (const ErrorCode failure = write_clock()) {
    past_.warnings.push_back(
        fmt::format("cannot write {}/{}: {}", folder_, kClock, failure.message()));
  }
}

void FileJournal::read_job(const std::string& name) {
  const auto bytes = read_file(directory_.get(), name);
  const std::string why = bytes ? "" : bytes.error().message();
  JournalContent content;
  if (bytes) content = read_journal(*bytes);
  const bool twice = files_.contains(content.run_id);
  if (!bytes || content.state == JournalContent::State::damaged || twice) {
    past_.is_complete = false;
    const std::string fault = !bytes  ? "it cannot be read: " + why
                              : twice ? "the job has another file"
                                      : content.fault;
    const ErrorCode failed = rename_to(name, name + kDamaged);
    past_.warnings.push_back(fmt::format(
        "{}/{} {}: {}; the agents of this job join again, and the job restarts once", folder_, name,
        failed ? "cannot be used, nor renamed"
               : fmt::format("is set aside as {}{}", name, kDamaged),
        fault));
    return;
  }
  if (content.records.empty()) {  // nothing of it was ever durable
    unlinkat(directory_.get(), name.c_str(), 0);
    return;
  }
  if (content.state == JournalContent::State::torn) {
    past_.warnings.push_back(
        fmt::format("{}/{}: {}, as a crash leaves it; the {} records before it are whole", folder_,
                    name, content.fault, content.records.size()));
  }
  File& file = files_[content.run_id];
  file.name = name;
  file.durable = content.good_bytes;
  for (JobRecord& record : content.records) past_.records.push_back(std::move(record));
}

/// None: it is of another boot, or there is none.
std::optional<Clock::duration> FileJournal::read_clock(const std::string& boot_id) const {
  const auto text = read_file(directory_.get(), kClock);
  const std::string begin = fmt::format("{} {} ", kClockBegin, boot_id);
  if (!text || boot_id.empty() || !text->starts_with(begin)) return std::nullopt;
  std::int64_t count = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, failed] = std::from_chars(text->data() + begin.size(), end, count);
  if (failed != std::errc() || stop == end || *stop != '\n') return std::nullopt;
  return Clock::duration(count);
}

ErrorCode FileJournal::write_clock() {
  const std::string name = std::string(kClock) + kNew;
  if (const ErrorCode failed = write_new(name, clock_)) return failed;
  return rename_to(name, kClock);
}

/// A whole file, durable as soon as its name is.
ErrorCode FileJournal::write_new(const std::string& name, std::string_view bytes) const {
  const auto fd = open_own_file(name, O_WRONLY | O_CREAT | O_TRUNC, 0600, directory_.get());
  if (!fd) return fd.error();
  if (const ErrorCode failed = write_all(fd->get(), bytes, 0)) return failed;
  return fdatasync(fd->get()) == 0 ? ErrorCode() : last_system_error();
}

// ---- records ----

void FileJournal::append(const JobRecord& record) {
  File& file = files_[record.run_id];
  touched_[record.run_id] = &file;
  if (!file.fresh.empty()) append_journal_frame(file.fresh, record);
  if (file.given_up) return;
  if (file.pending.size() > kPendingBytesMax) {
    file.given_up = true;
    file.pending = {};
    return;
  }
  if (file.durable == 0 && file.pending.empty()) file.pending = journal_head(record.run_id);
  append_journal_frame(file.pending, record);
}

void FileJournal::replace(const JobSnapshot& snapshot) {
  File& file = files_[snapshot.run_id];
  touched_[snapshot.run_id] = &file;
  file.fresh = journal_of(snapshot);
}

void FileJournal::forget(const std::string& run_id) {
  const auto found = files_.find(run_id);
  if (found == files_.end()) return;
  const std::string& name = found->second.name;
  if (!name.empty())
    unlinkat(directory_.get(), (found->second.incomplete ? name + kIncomplete : name).c_str(), 0);
  touched_.erase(run_id);
  faulty_.erase(run_id);
  files_.erase(found);
}

std::vector<std::string> FileJournal::commit() {
  std::vector<std::string> lines;
  touched_.insert(faulty_.begin(), faulty_.end());
  for (const auto& [run_id, file] : std::exchange(touched_, {})) save(run_id, *file, lines);
  if (told_ && faulty_.empty() && !write_clock()) {
    told_ = false;
    lines.push_back("the journal is durable again");
  }
  return lines;
}

void FileJournal::save(const std::string& run_id, File& file, std::vector<std::string>& lines) {
  if (file.given_up && file.fresh.empty()) return;
  ErrorCode failed;
  if (file.name.empty()) failed = create(run_id, file);
  if (!failed && !file.fresh.empty()) failed = write_fresh(run_id, file, lines);
  if (file.given_up) return;
  if (!failed) failed = write(file);
  if (!failed && file.incomplete) {
    failed = rename_to(file.name + kIncomplete, file.name);
    if (!failed) file.incomplete = false;
  }
  if (!failed) {
    faulty_.erase(run_id);
    return;
  }
  faulty_[run_id] = &file;
  mark_incomplete(file);
  if (std::exchange(told_, true)) return;
  // The next process must not take what it finds for all that there was.
  unlinkat(directory_.get(), kClock, 0);
  lines.push_back(
      fmt::format("cannot write the journal of the job '{}' in {}: {}; the jobs go on from memory, "
                  "and those that are not written restart once if rdzvd ends before it can write "
                  "them",
                  run_id, folder_, failed.message()));
}

/// The name is for people: the job is named in the file.
ErrorCode FileJournal::create(const std::string& run_id, File& file) {
  const std::string begin = escaped_run_id(run_id).substr(0, kNameBytesMax);
  for (int i = 1;; ++i) {
    const std::string name = begin + (i == 1 ? "" : fmt::format("~{}", i)) + std::string(kSuffix);
    const auto fd = open_own_file(name, O_WRONLY | O_CREAT | O_EXCL, 0600, directory_.get());
    if (fd.has_error() && fd.error() == boost::system::errc::file_exists) continue;
    if (!fd) return fd.error();
    file.name = name;
    return fsync(directory_.get()) == 0 ? ErrorCode() : last_system_error();
  }
}

ErrorCode FileJournal::write(File& file) {
  const std::string name = file.incomplete ? file.name + kIncomplete : file.name;
  const Result<UniqueFd> opened = open_own_file(name, O_WRONLY, 0, directory_.get());
  if (!opened) return opened.error();
  const UniqueFd& fd = *opened;
  const std::uint64_t end = file.durable + file.pending.size();
  if (const ErrorCode failed = write_all(fd.get(), file.pending, file.durable)) return failed;
  // What a failed write or a crash has left behind the last record.
  if (ftruncate(fd.get(), static_cast<off_t>(end)) != 0) return last_system_error();
  if (fdatasync(fd.get()) != 0) {
    // Which pages have reached the disk is unknown from now on, and would stay so.
    const ErrorCode failed = last_system_error();
    file.given_up = true;
    file.pending = {};
    return failed;
  }
  file.durable = end;
  file.pending.clear();
  return {};
}

/// Where the new file did not get the old one's place, all is as before. An error: it did, and that
/// may not be durable.
ErrorCode FileJournal::write_fresh(const std::string& run_id, File& file,
                                   std::vector<std::string>& lines) {
  const std::string bytes = std::exchange(file.fresh, {});
  const std::string fresh = file.name + kNew;
  const std::string old = file.incomplete ? file.name + kIncomplete : file.name;
  ErrorCode failed = write_new(fresh, bytes);
  if (!failed && renameat(directory_.get(), fresh.c_str(), directory_.get(), old.c_str()) != 0)
    failed = last_system_error();
  if (failed) {
    unlinkat(directory_.get(), fresh.c_str(), 0);
    lines.push_back(
        fmt::format("cannot shorten the journal of the job '{}' in {}, which grows on: {}", run_id,
                    folder_, failed.message()));
    return {};
  }
  file.durable = bytes.size();
  file.pending.clear();
  file.given_up = false;
  return fsync(directory_.get()) == 0 ? ErrorCode() : last_system_error();
}

void FileJournal::mark_incomplete(File& file) {
  if (file.incomplete || file.name.empty()) return;
  if (!rename_to(file.name, file.name + kIncomplete)) file.incomplete = true;
}

ErrorCode FileJournal::rename_to(const std::string& from, const std::string& to) {
  if (renameat(directory_.get(), from.c_str(), directory_.get(), to.c_str()) != 0)
    return last_system_error();
  return fsync(directory_.get()) == 0 ? ErrorCode() : last_system_error();
}

}  // namespace ddprun::rdzv
