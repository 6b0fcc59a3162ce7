#include "rendezvous/store/port_owner.hpp"

#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>

namespace ddprun::rdzv {
namespace {

constexpr std::size_t kCommandBytesMax = 100;
constexpr std::string_view kListening = "0A";

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <class Number>
bool parse(std::string_view text, Number& number, int base) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc() && stop == end && !text.empty();
}

/// The fields of a line: sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
std::vector<std::string> fields(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

bool has_socket(const std::filesystem::path& process, const std::string& link) {
  std::error_code error;
  for (std::filesystem::directory_iterator fds(process / "fd", error), end; !error && fds != end;
       fds.increment(error)) {
    std::error_code unreadable;
    if (std::filesystem::read_symlink(fds->path(), unreadable) == link) return true;
  }
  return false;
}

/// The command line in one line of sane length; the process's name where it has none.
std::string command_of(const std::filesystem::path& process) {
  std::string command = contents(process / "cmdline");
  while (!command.empty() && command.back() == '\0') command.pop_back();
  if (command.empty()) command = contents(process / "comm");
  while (!command.empty() && command.back() == '\n') command.pop_back();
  for (char& character : command) {
    if (std::iscntrl(static_cast<unsigned char>(character)) != 0) character = ' ';
  }
  if (command.size() > kCommandBytesMax) command = command.substr(0, kCommandBytesMax) + "...";
  return command;
}

std::optional<std::string> process_with(std::uint64_t inode) {
  const std::string link = fmt::format("socket:[{}]", inode);
  std::error_code error;
  for (std::filesystem::directory_iterator processes("/proc", error), end;
       !error && processes != end; processes.increment(error)) {
    const std::string pid = processes->path().filename();
    std::uint64_t number = 0;
    if (!parse(pid, number, 10) || !has_socket(processes->path(), link)) continue;
    return fmt::format("{}, pid {}", command_of(processes->path()), pid);
  }
  return std::nullopt;
}

}  // namespace

std::optional<PortSocket> find_port(std::string_view table, std::uint16_t port) {
  std::optional<PortSocket> found;
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> field = fields(line);
    if (field.size() < 10) continue;
    const std::size_t colon = field[1].rfind(':');
    std::uint16_t local = 0;
    PortSocket row;
    if (colon == std::string::npos ||
        !parse(std::string_view(field[1]).substr(colon + 1), local, 16) ||
        !parse(field[7], row.uid, 10) || !parse(field[9], row.inode, 10)) {
      continue;
    }
    row.listening = field[3] == kListening;
    if (local != port || row.inode == 0 || (found && !row.listening)) continue;
    found = row;
    if (row.listening) break;
  }
  return found;
}

std::optional<std::string> port_owner(std::uint16_t port) {
  std::optional<PortSocket> found;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    const auto row = find_port(contents(table), port);
    if (row && (!found || row->listening)) found = row;
  }
  if (!found) return std::nullopt;
  return process_with(found->inode).value_or(fmt::format("a process of uid {}", found->uid));
}

}  // namespace ddprun::rdzv
