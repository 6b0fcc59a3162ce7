#include "rendezvous/daemon/options.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/secret_file.hpp"
#include "base/version.hpp"
#include "proto/message_limits.hpp"
#include "rendezvous/daemon/daemon_text.hpp"
#include "rendezvous/daemon/etcd_options.hpp"
#include "rendezvous/daemon/tls_options.hpp"
#include "rendezvous/daemon/usage_error.hpp"
#include "texts/cli/command_line.hpp"

namespace ddprun::rdzv {

namespace {

constexpr const char* kDefaultHost = "127.0.0.1";
constexpr std::uint16_t kDefaultPort = 29400;
constexpr const char* kDefaultEndpoint = "127.0.0.1:29400";
constexpr std::chrono::nanoseconds kNoTime{0};
constexpr std::uint64_t kStoreBytesMax = 512ULL * 1024 * 1024;
constexpr std::uint64_t kCountMax = std::uint64_t{1} << 40;

/// What is read before it becomes DaemonOptions.
struct Texts {
  std::optional<std::string> listen;
  std::vector<std::string> allow_uid;
  std::optional<std::string> secret_file;
  std::optional<std::string> secret_dir;
  std::optional<std::string> state_dir;
  EtcdTexts etcd;
  std::chrono::nanoseconds listen_timeout = std::chrono::seconds(30);
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(60);
  std::chrono::nanoseconds stats_interval{0};
  TlsTexts tls;
  bool no_old_dialect = false;
  bool no_store = false;

  bool status = false;
  std::optional<std::string> fence;
  std::optional<std::string> run_id;
  std::optional<std::string> endpoint;
  bool json = false;
};

void add_service_options(CommandLine& line, Texts& texts) {
  line.group("Service");
  line.text("--listen", texts.listen, "HOST:PORT",
            "Where to listen: HOST:PORT, [IPV6]:PORT, or PORT alone for loopback; port 0 is any "
            "free one. The bound address is the first line on stdout")
      ->default_str(kDefaultEndpoint);
  line.duration("--listen-timeout", texts.listen_timeout, kNoTime,
                "How long to try if HOST does not resolve, or this machine does not have its "
                "address yet. Units are ms, s, m "
                "and h: 30, 0.5, 500ms, 2m");
  line.text(
          "--allow-uid", texts.allow_uid, "USER,...|any",
          "Other users of this machine (numbers or names) who may use the store over loopback, and "
          "join jobs if there is no secret; any: all users. The user of rdzvd and root always may")
      ->delimiter(',');
  line.text("--secret-file", texts.secret_file, "FILE",
            "Agents must have the secret in FILE: 16 to 4096 bytes. Its owner must be this user or "
            "root, and no other user may have access. --status and --fence need the secret of the "
            "rendezvous that they ask; without the option they take it from DDPRUN_SECRET_FILE or "
            "~/.config/ddprun/secret, if that exists");
  line.text("--secret-dir", texts.secret_dir, "DIR",
            "Each tenant has its own secret: a file in DIR is named as a run id, or PREFIX* for "
            "all run ids that begin with PREFIX, and has the secret of these jobs. The longest "
            "name that fits counts. Files can be added, changed and removed while rdzvd runs");
  add_tls_options(line, texts.tls);
  line.text("--state-dir", texts.state_dir, "DIR",
            "Keep a journal of the jobs in this folder, which is made if needed. If rdzvd is "
            "started again with the same folder, the jobs continue without a restart. Keys of the "
            "store are not kept");
  add_etcd_options(line, texts.etcd);
  line.flag("--no-store", texts.no_store,
            "Serve no store: jobs of ddprun do not use it, only those of torchrun and other "
            "programs do");
  line.flag("--no-old-dialect", texts.no_old_dialect,
            "Refuse clients of PyTorch 1.13 and 2.0: their dialect has no handshake");
}

void add_observer_options(CommandLine& line, Texts& texts) {
  line.group("Ask a running rdzvd");
  line.flag("--status", texts.status,
            "Print the jobs and nodes of a running rdzvd, or of the rendezvous in an agent; do not "
            "serve");
  line.text("--fence", texts.fence, "NODE",
            "Give up a dead node of the job --run-id, so that the job does not wait until the "
            "node's lease is over. NODE is its name, or the id of its agent as --status shows it. "
            "First make sure that nothing of the job runs there: switch it off, or cut it off");
  line.text("--run-id", texts.run_id, "ID",
            "The job that --status or --fence is about; with --status also PREFIX*, for the jobs "
            "that begin with PREFIX");
  line.text("--endpoint", texts.endpoint, "HOST:PORT", "The rendezvous to ask")
      ->default_str(kDefaultEndpoint);
  line.flag("--json", texts.json, "With --status: print it as JSON, as docs/protocol.md describes");
}

void add_limit_options(CommandLine& line, DaemonOptions& options, Texts& texts) {
  StoreSettings& store = options.store;
  store.store_bytes_max = kStoreBytesMax;
  line.group("Limits");
  const auto add = [&](const char* name, std::uint64_t& value, const char* help) {
    line.number(name, value, 1, kCountMax, "N", help);
  };
  add("--max-clients", store.connections_max,
      "Clients at the same time; others wait. At most 100000 of them can be agents");
  add("--max-key-bytes", store.request.key_bytes_max, "Length of a key");
  add("--max-value-bytes", store.request.value_bytes_max, "Length of a value in one request");
  add("--max-list-elements", store.request.list_elements_max, "Keys or pairs in one request");
  add("--max-request-bytes", store.request.request_bytes_max, "One request as a whole");
  add("--max-store-bytes", store.store_bytes_max,
      "Memory for all keys and values of the store, about; one client may fill half of it. A "
      "client that sets more is closed");
  add("--max-waited-keys", store.waited_keys_max,
      "Keys that one client waits for at the same time");
  add("--max-unread-bytes", store.reply_backlog_bytes_max,
      "Unread reply bytes of one client; above this, rdzvd does not serve the client until it "
      "reads");
  line.number("--max-tenant-jobs", options.tenant_limits.jobs_max, 1, kCountMax, "N",
              "With --secret-dir: jobs of one tenant that are not over");
  line.number("--max-tenant-nodes", options.tenant_limits.nodes_max, 1, kCountMax, "N",
              "With --secret-dir: nodes of one tenant, in all of its jobs");
  line.duration("--handshake-timeout", texts.handshake_timeout, kNoTime,
                "Close clients that have sent no request after this time; 0: never");
}

void add_output_options(CommandLine& line, DaemonOptions& options, Texts& texts) {
  line.group("Output");
  line.choice("--log-level", options.log_level,
              "How much to log to stderr; warning includes closed clients and the reason");
  line.duration("--stats-interval", texts.stats_interval, kNoTime,
                "Log the numbers of clients and agents this often, if they have changed; 0: never");
}

uid_t user_of(const std::string& text) {
  uid_t uid = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, uid);
  if (error == std::errc() && stop == end) return uid;
  if (const passwd* user = getpwnam(text.c_str())) return user->pw_uid;
  throw UsageError(fmt::format("--allow-uid: there is no user {}", text));
}

/// HOST:PORT, or PORT alone for loopback.
boost::system::result<Endpoint, std::string> endpoint_of(const std::string& text) {
  const bool port_alone = text.find_first_not_of("0123456789") == std::string::npos;
  return parse_endpoint(port_alone ? fmt::format("{}:{}", kDefaultHost, text) : text);
}

std::string secret_in(const std::string& file, bool by_option) {
  auto secret = read_secret_file(file);
  if (!secret) throw UsageError((by_option ? "--secret-file: " : "") + secret.error());
  return std::move(*secret);
}

/// What agents of the same user would use, too. Empty: there is none.
std::string users_secret_file() {
  const auto variable = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
  if (const auto named = variable("DDPRUN_SECRET_FILE"); named && !named->empty()) return *named;
  const std::string path = default_secret_path(variable("XDG_CONFIG_HOME"), variable("HOME"));
  return access(path.c_str(), F_OK) == 0 ? path : "";
}

/// All others are about serving.
constexpr auto kObserverOptions = std::to_array<std::string_view>(
    {"--status", "--fence", "--run-id", "--endpoint", "--json", "--secret-file", "--tls",
     "--tls-cert", "--tls-key", "--tls-ca", "--log-level"});

/// `given`: the options on the command line.
ObserverOptions observer(const Texts& texts, const std::vector<std::string>& given) {
  for (const std::string& name : given) {
    if (std::find(kObserverOptions.begin(), kObserverOptions.end(), name) != kObserverOptions.end())
      continue;
    throw UsageError(
        fmt::format("{}: only for serving, not for --status or --fence; the rendezvous to ask is "
                    "--endpoint=HOST:PORT",
                    name));
  }
  ObserverOptions options;
  const std::string text = texts.endpoint.value_or(kDefaultEndpoint);
  const auto endpoint = endpoint_of(text);
  if (!endpoint || endpoint->port == 0)
    throw UsageError(fmt::format("--endpoint={}: {}; must be HOST:PORT, HOST, [IPV6]:PORT or PORT",
                                 text, endpoint ? "port 0 cannot be asked" : endpoint.error()));
  options.endpoint = {endpoint->host, endpoint->port.value_or(kDefaultPort)};
  if (texts.run_id && texts.run_id->size() > proto::kNameBytesMax)
    throw UsageError(fmt::format("--run-id: must have at most {} bytes", proto::kNameBytesMax));
  options.run_id = texts.run_id.value_or("");
  if (texts.run_id && texts.run_id->empty()) throw UsageError("--run-id: the id is empty");
  if (texts.fence && texts.fence->empty())
    throw UsageError("--fence: the node is missing: --fence=NODE (rdzvd --status shows them)");
  if (texts.fence && texts.status)
    throw UsageError("--status and --fence=NODE: give one of them; --fence prints the status, too");
  if (texts.fence && texts.run_id && names_many(*texts.run_id))
    throw UsageError("--fence: must be about one job, and --run-id=PREFIX* stands for many");
  if (texts.fence && !texts.run_id)
    throw UsageError("--fence: the job is missing: add --run-id=ID (rdzvd --status shows the ids)");
  options.fence = texts.fence.value_or("");
  options.secret_is_named = texts.secret_file.has_value();
  options.secret_file = texts.secret_file.value_or(users_secret_file());
  if (!options.secret_file.empty())
    options.secret = secret_in(options.secret_file, texts.secret_file.has_value());
  options.encrypter =
      encrypter_for(texts.tls, TlsSide::asks, !options.secret.empty(), options.warnings);
  options.json = texts.json;
  return options;
}

void check_no_observer(const Texts& texts) {
  const char* given = texts.run_id ? "--run-id" : texts.endpoint ? "--endpoint" : "--json";
  if (texts.run_id || texts.endpoint || texts.json)
    throw UsageError(fmt::format("{}: only with --status or --fence=NODE", given));
}

void check_tenants(const Texts& texts, const std::vector<std::string>& given) {
  if (texts.secret_dir) return;
  for (const std::string& name : given)
    if (name == "--max-tenant-jobs" || name == "--max-tenant-nodes")
      throw UsageError(fmt::format("{}: only with --secret-dir=DIR, which makes tenants", name));
}

DaemonOptions converted(DaemonOptions options, const Texts& texts) {
  const std::string listen = texts.listen.value_or(kDefaultEndpoint);
  const auto endpoint = endpoint_of(listen);
  if (!endpoint || !endpoint->port) {
    throw UsageError(
        fmt::format("--listen={}: {}; must be HOST:PORT, [IPV6]:PORT or PORT, such as 127.0.0.1:0",
                    listen, endpoint ? "the port is missing" : endpoint.error()));
  }
  options.listen = *endpoint;
  using std::chrono::ceil;
  using std::chrono::milliseconds;
  options.listen_timeout = ceil<milliseconds>(texts.listen_timeout);
  options.stats_interval = ceil<std::chrono::seconds>(texts.stats_interval);
  StoreSettings& store = options.store;
  store.handshake_timeout = ceil<milliseconds>(texts.handshake_timeout);
  store.accept_old_dialect = !texts.no_old_dialect;
  store.serves_store = !texts.no_store;
  for (const std::string& user : texts.allow_uid) {
    if (user == "any") {
      store.check_uid = false;
    } else {
      store.allowed_uids.push_back(user_of(user));
    }
  }
  if (texts.secret_file && texts.secret_dir)
    throw UsageError(
        "--secret-file and --secret-dir: give one of them; in the folder, the file "
        "named * has the secret of all jobs that no other file names");
  if (texts.secret_file) options.secret = secret_in(*texts.secret_file, true);
  if (texts.secret_dir) {
    options.secret_dir = *texts.secret_dir;
    if (options.secret_dir.empty())
      throw UsageError("--secret-dir: the name of a folder is missing");
  }
  options.encrypter = encrypter_for(texts.tls, TlsSide::serves,
                                    texts.secret_file || texts.secret_dir, options.warnings);
  if (texts.state_dir) {
    if (texts.state_dir->empty()) throw UsageError("--state-dir: the name of a folder is missing");
    options.state_dir = *texts.state_dir;
  }
  if (texts.etcd.journal && texts.state_dir)
    throw UsageError("--journal and --state-dir: give one of them; the jobs have one journal");
  options.etcd = etcd_place(texts.etcd, options.etcd_access, options.warnings);
  const proto::c10d::Limits& limits = store.request;
  const std::uint64_t needed = limits.key_bytes_max + 2 * limits.value_bytes_max + 25;
  if (limits.request_bytes_max < needed) {
    throw UsageError(
        fmt::format("--max-request-bytes={}: a COMPARE_SET with the longest key and values has {}",
                    limits.request_bytes_max, needed));
  }
  return options;
}

}  // namespace

std::variant<DaemonOptions, ObserverOptions, DaemonExit> parse_daemon_options(
    const std::vector<std::string>& arguments) {
  DaemonOptions options;
  Texts texts;
  CommandLine line(daemon_text(), "rdzvd --help", [] { return ddprun::version_text("rdzvd"); });
  add_service_options(line, texts);
  add_observer_options(line, texts);
  add_limit_options(line, options, texts);
  add_output_options(line, options, texts);
  if (auto end = line.parse(arguments))
    return DaemonExit{end->wrong ? kExitUsage : 0, std::move(end->text)};
  try {
    if (texts.status || texts.fence) return observer(texts, line.given());
    check_tenants(texts, line.given());
    check_no_observer(texts);
    return converted(std::move(options), texts);
  } catch (const UsageError& error) {
    return DaemonExit{kExitUsage, line.wrong(error.what()).text};
  }
}

}  // namespace ddprun::rdzv
