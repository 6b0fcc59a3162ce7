#include "rendezvous/service/secret_folder.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/result.hpp"
#include "base/secret_file.hpp"

namespace ddprun::rdzv {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
/// A file system's clock ticks so seldom at most: of two changes within that time the second one
/// may leave no trace.
constexpr std::int64_t kTickNs = 2 * kSecond;

std::int64_t ns_of(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

/// Kubernetes mounts its secrets with every right, but read-only.
bool is_read_only(const std::string& folder) {
  struct statvfs mounted {};
  return statvfs(folder.c_str(), &mounted) == 0 && (mounted.f_flag & ST_RDONLY) != 0;
}

bool is_tenant(std::string_view file) { return !file.starts_with('.') && !file.ends_with('~'); }

}  // namespace

boost::system::result<SecretFolder, std::string> SecretFolder::open(const std::string& folder) {
  struct stat is {};
  const auto failed = [](std::string why) {
    return boost::system::result<SecretFolder, std::string>(boost::system::in_place_error,
                                                            std::move(why));
  };
  if (stat(folder.c_str(), &is) != 0) {
    return failed(
        fmt::format("cannot use the folder {}: {}", folder, last_system_error().message()));
  }
  if (!S_ISDIR(is.st_mode)) {
    return failed(fmt::format(
        "{} is no folder: it must hold one file for each tenant, named as a run id or PREFIX*",
        folder));
  }
  const bool is_ours = is.st_uid == geteuid() || is.st_uid == 0;
  const bool is_closed = (is.st_mode & (S_IWGRP | S_IWOTH)) == 0 || is_read_only(folder);
  if (!is_ours || !is_closed) {
    return failed(
        fmt::format("other users may change the folder {}: it must belong to user {} or to root, "
                    "with a mode such as 0700",
                    folder, geteuid()));
  }
  SecretFolder secrets(folder);
  secrets.look();
  return secrets;
}

std::optional<SecretFolder::Stamp> SecretFolder::stamp_of(const std::string& path) {
  struct stat is {};
  if (stat(path.c_str(), &is) != 0) return std::nullopt;
  return Stamp{is.st_dev, is.st_ino, is.st_size, ns_of(is.st_mtim), ns_of(is.st_ctim)};
}

/// Whether a later change would show.
bool SecretFolder::is_settled(const Stamp& stamp) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return ns_of(now) - std::max(stamp.modified_ns, stamp.changed_ns) > kTickNs;
}

void SecretFolder::warn(std::string line) { warnings_.push_back(std::move(line)); }

void SecretFolder::look() {
  const auto stamp = stamp_of(folder_);
  if (stamp && stamp == stamp_) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(stamp ? opendir(folder_.c_str()) : nullptr,
                                                    &closedir);
  if (!entries) {
    // Those that are known stay: a folder that is gone for a moment must end no job.
    std::string line = fmt::format("--secret-dir: cannot read the folder {}: {}", folder_,
                                   last_system_error().message());
    if (line != warned_) warn(warned_ = std::move(line));
    return;
  }
  warned_.clear();
  std::set<std::string, std::less<>> names;
  while (const dirent* entry = readdir(entries.get()))
    if (is_tenant(entry->d_name)) names.insert(entry->d_name);
  std::erase_if(secrets_, [&](const auto& one) { return !names.contains(one.first); });
  Tenants tenants(std::move(names));
  if (tenants != tenants_) ++changes_;
  tenants_ = std::move(tenants);
  stamp_.reset();
  if (is_settled(*stamp)) stamp_ = stamp;
}

std::string SecretFolder::secret_for(std::string_view run_id) {
  look();
  const std::string* const name = tenants_.of(run_id);
  if (name == nullptr) return "";
  const std::string path = folder_ + "/" + *name;
  const auto stamp = stamp_of(path);
  const auto known = secrets_.find(*name);
  if (stamp && known != secrets_.end() && known->second.stamp == *stamp && is_settled(*stamp))
    return known->second.text;
  auto secret = read_secret_file(path);
  const Stamp of_now = stamp.value_or(Stamp{});
  const bool is_told = known != secrets_.end() && known->second.stamp == of_now;
  if (!secret && !is_told) warn("--secret-dir: " + secret.error());
  secrets_[*name] = {of_now, secret ? *secret : std::string()};
  return secret ? std::move(*secret) : std::string();
}

}  // namespace ddprun::rdzv
