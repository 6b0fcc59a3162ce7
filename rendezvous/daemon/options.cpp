#include "rendezvous/daemon/options.hpp"

#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/option_text.hpp"
#include "base/version.hpp"
#include "rendezvous/daemon/man_page.hpp"

namespace ddprun::rdzv {
namespace {

constexpr const char* kDefaultHost = "127.0.0.1";
constexpr const char* kDefaultListen = "127.0.0.1:29400";
constexpr double kSecondsMax = 1e6;

constexpr const char* kDescription =
    "Serves one key-value store in the protocol of PyTorch's TCPStore.\n"
    "\n"
    "  rdzvd                                            on 127.0.0.1:29400, for this user\n"
    "  rdzvd --listen=127.0.0.1:0                       on a free port; the first line says which\n"
    "  rdzvd --listen='[::]:29400' --allow-uid=any      for a cluster and all its users\n"
    "  torchrun --rdzv-backend=c10d --rdzv-endpoint=HOST:29400 --rdzv-conf=is_host=0 ...\n"
    "                                                   agents that meet in it\n"
    "  dist.TCPStore('HOST', 29400, is_master=False)    a client in Python\n";

constexpr const char* kFooter =
    "The protocol has neither authentication nor encryption: whoever can connect can read and\n"
    "change every key.\n"
    "\n"
    "Exit codes: 0 stopped by SIGTERM, SIGINT or SIGHUP; 1 could not listen; 2 wrong command "
    "line.\n";

/// Wrong use that CLI11 knows nothing of.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What CLI11 fills in before it becomes DaemonOptions.
struct Texts {
  std::string listen = kDefaultListen;
  std::vector<std::string> allow_uid;
  double listen_timeout = 30;
  double handshake_timeout = 60;
  double stats_interval = 0;
  std::string log_level = "warning";
  std::string completion;
  bool no_old_dialect = false;
  bool version = false;
  bool man = false;
};

CLI::Validator word_of(std::vector<std::string> words) {
  const auto check = [words](const std::string& text) {
    const bool known = std::find(words.begin(), words.end(), text) != words.end();
    return known ? std::string()
                 : fmt::format("must be one of {}, not {}", fmt::join(words, ", "), text);
  };
  return CLI::Validator(check, "", "");
}

template <class Number>
CLI::Validator within(Number low, Number high) {
  const auto check = [low, high](const std::string& text) {
    Number value{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool good = error == std::errc() && stop == end && value >= low && value <= high;
    return good ? std::string()
                : fmt::format("must be a number from {} to {}, not {}", low, high, text);
  };
  return CLI::Validator(check, "", "");
}

CLI::Validator count() { return within<std::uint64_t>(1, std::uint64_t{1} << 40); }

const std::vector<std::string> kShells = {"bash", "zsh", "fish"};
const std::vector<std::string> kLevels = {"error", "warning", "info"};

void add_service_options(CLI::App& app, Texts& texts) {
  const char* group = "Service";
  app.add_option("--listen", texts.listen,
                 "Where to listen: HOST:PORT, [IPV6]:PORT, or PORT alone for loopback; port 0 is\n"
                 "any free one. The bound address is the first line on stdout")
      ->type_name("HOST:PORT")
      ->group(group)
      ->capture_default_str();
  app.add_option("--listen-timeout", texts.listen_timeout,
                 "How long to try while HOST does not resolve or is not up yet")
      ->type_name("SECONDS")
      ->group(group)
      ->check(within(0.0, kSecondsMax))
      ->capture_default_str();
  app.add_option("--allow-uid", texts.allow_uid,
                 "Other users (numbers or names, with commas) whose processes on this machine may "
                 "use the store\n"
                 "over loopback, or `any`; our own user and root always may")
      ->type_name("USER")
      ->group(group)
      ->delimiter(',');
  app.add_flag("--no-old-dialect", texts.no_old_dialect,
               "Refuse clients of PyTorch 1.13 and 2.0, whose dialect has no handshake")
      ->group(group);
}

void add_limit_options(CLI::App& app, StoreSettings& store, Texts& texts) {
  const char* group = "Limits";
  const auto add = [&](const char* name, std::uint64_t& value, const char* help) {
    app.add_option(name, value, help)
        ->type_name("N")
        ->group(group)
        ->check(count())
        ->capture_default_str();
  };
  add("--max-clients", store.connections_max, "Clients at the same time; more of them wait");
  add("--max-key-bytes", store.request.key_bytes_max, "Length of a key");
  add("--max-value-bytes", store.request.value_bytes_max, "Length of a value in one request");
  add("--max-list-elements", store.request.list_elements_max, "Keys or pairs in one request");
  add("--max-request-bytes", store.request.request_bytes_max, "One request as a whole");
  add("--max-waited-keys", store.waited_keys_max, "Keys that one client waits for at a time");
  add("--max-unread-bytes", store.reply_backlog_bytes_max,
      "Replies that one client has not read; it is not served until it has");
  app.add_option("--handshake-timeout", texts.handshake_timeout,
                 "Close clients whose first request has not come by then; 0: never")
      ->type_name("SECONDS")
      ->group(group)
      ->check(within(0.0, kSecondsMax))
      ->capture_default_str();
}

void add_output_options(CLI::App& app, Texts& texts) {
  const char* group = "Output";
  app.add_option("--log-level", texts.log_level,
                 "What goes to stderr: error, warning (clients that were closed, and why) or info")
      ->type_name("LEVEL")
      ->group(group)
      ->check(word_of(kLevels))
      ->capture_default_str();
  app.add_option("--stats-interval", texts.stats_interval,
                 "Say so often how many clients there are, if that has changed; 0: never")
      ->type_name("SECONDS")
      ->group(group)
      ->check(within(0.0, kSecondsMax))
      ->capture_default_str();
  app.add_option("--completion", texts.completion, "Print the completion of bash, zsh or fish")
      ->type_name("SHELL")
      ->group(group)
      ->check(word_of(kShells));
  app.add_flag("--man", texts.man, "Print the man page (for `man -l -`)")->group(group);
  app.add_flag("--version", texts.version, "Version, compiler, libraries")->group(group);
  app.set_help_flag("-h,--help", "This text")->group(group);
}

uid_t user_of(const std::string& text) {
  uid_t uid = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, uid);
  if (error == std::errc() && stop == end) return uid;
  if (const passwd* user = getpwnam(text.c_str())) return user->pw_uid;
  throw UsageError(fmt::format("--allow-uid: there is no user {}", text));
}

DaemonOptions converted(DaemonOptions options, const Texts& texts) {
  const auto address = parse_address(texts.listen, kDefaultHost);
  if (!address) {
    throw UsageError(fmt::format(
        "--listen={}: must be HOST:PORT, [IPV6]:PORT or PORT, such as 127.0.0.1:0", texts.listen));
  }
  options.listen = *address;
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(std::llround(std::ceil(seconds * 1000)));
  };
  options.listen_timeout = milliseconds(texts.listen_timeout);
  options.stats_interval = std::chrono::seconds(std::llround(std::ceil(texts.stats_interval)));
  options.log_level = texts.log_level == "error"     ? LogLevel::error
                      : texts.log_level == "warning" ? LogLevel::warning
                                                     : LogLevel::info;
  StoreSettings& store = options.store;
  store.handshake_timeout = milliseconds(texts.handshake_timeout);
  store.accept_old_dialect = !texts.no_old_dialect;
  for (const std::string& user : texts.allow_uid) {
    if (user == "any") {
      store.check_uid = false;
    } else {
      store.allowed_uids.push_back(user_of(user));
    }
  }
  const proto::c10d::Limits& limits = store.request;
  const std::uint64_t needed = limits.key_bytes_max + 2 * limits.value_bytes_max + 25;
  if (limits.request_bytes_max < needed) {
    throw UsageError(
        fmt::format("--max-request-bytes={}: a COMPARE_SET with the longest key and values has {}",
                    limits.request_bytes_max, needed));
  }
  return options;
}

/// "--allow_uid=a_b" as "--allow-uid=a_b": both spellings of a name, the value as it is.
std::string with_dashes(const std::string& argument) {
  if (!argument.starts_with("--")) return argument;
  std::string result = argument;
  std::replace(result.begin(), result.begin() + std::min(result.find('='), result.size()), '_',
               '-');
  return result;
}

DaemonExit usage_error(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  return {kExitUsage, fmt::format("rdzvd: {} (see rdzvd --help)\n", message)};
}

}  // namespace

std::variant<DaemonOptions, DaemonExit> parse_daemon_options(
    const std::vector<std::string>& arguments) {
  DaemonOptions options;
  Texts texts;
  CLI::App app(kDescription, "rdzvd");
  app.footer(kFooter);
  set_help_format(app, 34);
  add_service_options(app, texts);
  add_limit_options(app, options.store, texts);
  add_output_options(app, texts);

  std::vector<std::string> reversed;  // the order that CLI11 wants
  for (auto it = arguments.rbegin(); it != arguments.rend(); ++it) {
    reversed.push_back(with_dashes(*it));
  }
  try {
    app.parse(reversed);
    if (texts.version) return DaemonExit{0, ddprun::version_text("rdzvd")};
    const auto all = ddprun::option_texts(app, {{"completion", kShells}, {"log-level", kLevels}});
    if (texts.man) return DaemonExit{0, ddprun::man_page(kManPage, all)};
    if (!texts.completion.empty()) {
      return DaemonExit{0, ddprun::completion("rdzvd", all, texts.completion)};
    }
    return converted(std::move(options), texts);
  } catch (const CLI::CallForHelp&) {
    return DaemonExit{0, app.help()};
  } catch (const CLI::ExtrasError&) {
    const std::string unknown = app.remaining().empty() ? "" : app.remaining().front();
    if (!unknown.starts_with("-")) {
      return usage_error(fmt::format("unexpected argument {}; all settings are options", unknown));
    }
    return usage_error(fmt::format("unknown option {}", unknown.substr(0, unknown.find('='))));
  } catch (const CLI::ParseError& error) {
    return usage_error(parse_error_text(app, error.what()));
  } catch (const UsageError& error) {
    return usage_error(error.what());
  }
}

}  // namespace ddprun::rdzv
