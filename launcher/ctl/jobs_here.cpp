#include "launcher/ctl/jobs_here.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "base/printable.hpp"

namespace ddprun::ctl {
namespace {

constexpr unsigned kAccepts = 0x10000;  // __SO_ACCEPTCON of the kernel
constexpr std::size_t kJobsNamed = 8;

/// The word at `place` (from 0), and what follows it without the spaces between.
std::pair<std::string_view, std::string_view> word_at(std::string_view line, int place) {
  std::string_view word;
  for (int i = 0; i <= place; ++i) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size());
  }
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return {word, line};
}

std::string names_of(const std::vector<JobSocketName>& jobs) {
  std::string text;
  for (std::size_t i = 0; i < jobs.size() && i < kJobsNamed; ++i)
    text += (i > 0 ? ", " : "") + jobs[i].job;
  if (jobs.size() > kJobsNamed) text += fmt::format(" and {} more", jobs.size() - kJobsNamed);
  return text;
}

constexpr std::size_t kNameBytesMax = 64;  // of a run id in a socket's name

ChosenJob problem(std::string text, bool is_ambiguous = false) {
  return {boost::system::in_place_error, NoJob{is_ambiguous, std::move(text)}};
}

}  // namespace

std::vector<JobSocketName> jobs_in(std::string_view proc_net_unix, uid_t user) {
  constexpr std::string_view kPrefix = "@ddprun/";
  std::vector<JobSocketName> jobs;
  while (!proc_net_unix.empty()) {
    const std::string_view line = proc_net_unix.substr(0, proc_net_unix.find('\n'));
    proc_net_unix.remove_prefix(std::min(line.size() + 1, proc_net_unix.size()));
    // Num: RefCount Protocol Flags Type St Inode Path
    const std::string flags(word_at(line, 3).first);
    const std::string_view path = word_at(line, 6).second;
    if (!path.starts_with(kPrefix) || (std::strtoul(flags.c_str(), nullptr, 16) & kAccepts) == 0)
      continue;
    const std::string_view rest = path.substr(kPrefix.size());
    const std::size_t slash = rest.find('/');
    uid_t owner = 0;
    const auto [end, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), owner);
    const bool is_whole = slash != std::string_view::npos && failed == std::errc() &&
                          end == rest.data() + slash && slash + 1 < rest.size();
    if (!is_whole || (user != 0 && owner != user)) continue;
    const std::string_view job = owner == user ? rest.substr(slash + 1) : rest;
    jobs.push_back({std::string(path), owner, std::string(job)});
  }
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    return std::tie(a.job, a.user) < std::tie(b.job, b.user);
  });
  return jobs;
}

ChosenJob chosen_job(const std::vector<JobSocketName>& jobs, const std::string& job,
                     const std::string& own_address) {
  std::vector<JobSocketName> found;
  const auto take = [&](auto fits) {
    if (found.empty()) std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(found), fits);
  };
  if (job.empty()) {
    take([&](const JobSocketName& one) { return one.address == own_address; });
    take([](const JobSocketName&) { return true; });
  } else {
    const std::string name = job.substr(0, kNameBytesMax);
    take([&](const JobSocketName& one) { return one.job == job || one.job == name; });
    take([&](const JobSocketName& one) { return one.job.starts_with(job); });
  }
  if (found.size() == 1) return found.front();
  if (jobs.empty()) return problem("no job of this user runs on this machine");
  if (found.empty())
    return problem(fmt::format("no job here is called {}; there is {}", printable(job),
                               printable(names_of(jobs))));
  return problem(fmt::format("{} jobs {}: say which one, as JOB: {}", found.size(),
                             job.empty() ? "run here" : "begin so", printable(names_of(found))),
                 true);
}

}  // namespace ddprun::ctl
