// The parts of rdzvd that need no network: options and what is made of them, log lines.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "base/unique_handle.hpp"
#include "rendezvous/daemon/line_queue.hpp"
#include "rendezvous/daemon/option_examples.hpp"
#include "tests/support/certificates.hpp"
#include "tests/support/example_words.hpp"
#include "tests/support/short_help_checks.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tls.hpp"
#include "tests/unit/rendezvous/daemon/read_options.hpp"
#include "texts/misplaced_option.hpp"

using namespace ddprun::rdzv;
using namespace std::chrono_literals;
using ddprun::Endpoint;
using ddprun::UniqueFd;
using ddprun::test::contains;
using ddprun::test::refused;
using ddprun::test::Words;

namespace {

DaemonOptions parsed(const Words& words) {
  const auto result = parse_daemon_options(words);
  if (const auto* exit = std::get_if<DaemonExit>(&result)) FAIL(exit->text);
  return std::get<DaemonOptions>(result);
}

std::string printed(const std::string& word) {
  const auto result = parse_daemon_options({word});
  REQUIRE(std::holds_alternative<DaemonExit>(result));
  CHECK(std::get<DaemonExit>(result).code == 0);
  return std::get<DaemonExit>(result).text;
}

/// Every long option that the help shows at the beginning of a line.
Words options_in_help() {
  Words names;
  std::istringstream help(printed("--help"));
  for (std::string line; std::getline(help, line);) {
    const std::size_t text = line.find_first_not_of(' ');
    if (text == std::string::npos || text == 0 || line[text] != '-') continue;
    const std::size_t begin = line.find("--", text);
    if (begin == std::string::npos) continue;
    names.push_back(line.substr(begin, line.find_first_of(" =,[", begin) - begin));
  }
  return names;
}

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    out.reset(ends[0]);
    in.reset(ends[1]);
  }
  std::string drain() {
    std::string all;
    char bytes[4096];
    ssize_t length = 0;
    while ((length = read(out.get(), bytes, sizeof bytes)) > 0)
      all.append(bytes, static_cast<std::size_t>(length));
    return all;
  }
  UniqueFd out;
  UniqueFd in;
};

}  // namespace

TEST_CASE("rdzvd listens on loopback where only a port is given, and never without a port") {
  CHECK(parsed({"--listen=29400"}).listen == Endpoint{"127.0.0.1", 29400});
  CHECK(parsed({"--listen=[::1]:0"}).listen == Endpoint{"::1", 0});
  for (const std::string text : {"host", "::1:80", "[::1]", "65536"}) {
    CHECK(contains(refused({"--listen=" + text}),
                   "; must be HOST:PORT, [IPV6]:PORT or PORT, such as 127.0.0.1:0"));
  }
}

TEST_CASE("durations of rdzvd have decimals and units, and are rounded up") {
  const DaemonOptions options =
      parsed({"--listen-timeout=2m", "--handshake-timeout=0.0001", "--stats-interval=1500ms"});
  CHECK(options.listen_timeout == 2min);
  CHECK(options.store.handshake_timeout == 1ms);
  CHECK(options.stats_interval == 2s);
}

TEST_CASE("without options rdzvd serves its own user on loopback") {
  const DaemonOptions options = parsed({});
  CHECK(options.listen == Endpoint{"127.0.0.1", 29400});
  CHECK(options.log_level == LogLevel::warning);
  CHECK(options.store.check_uid);
  CHECK(options.store.accept_old_dialect);
  CHECK(options.store.serves_store);
  CHECK(options.store.store_bytes_max == 512 * 1024 * 1024);
  CHECK(options.store.handshake_timeout == 60s);
  CHECK(options.stats_interval == 0s);
}

TEST_CASE("options of rdzvd reach the settings of the store") {
  const DaemonOptions options = parsed(
      {"--listen", "[::1]:0", "--allow-uid=1001,root", "--allow_uid=1002", "--no-old-dialect",
       "--max-clients=5", "--max-key-bytes=100", "--max-value-bytes=200", "--max-list-elements=7",
       "--max-request-bytes=4000", "--max-waited-keys=8", "--max-unread-bytes=9",
       "--max-store-bytes=10", "--no-store", "--handshake-timeout=0.5", "--listen-timeout=2",
       "--log-level=info", "--stats-interval=10"});
  CHECK(options.listen == Endpoint{"::1", 0});
  CHECK(options.store.allowed_uids == std::vector<uid_t>{1001, 0, 1002});
  CHECK(options.store.check_uid);
  CHECK_FALSE(options.store.accept_old_dialect);
  CHECK(options.store.connections_max == 5);
  CHECK(options.store.request.key_bytes_max == 100);
  CHECK(options.store.request.value_bytes_max == 200);
  CHECK(options.store.request.list_elements_max == 7);
  CHECK(options.store.request.request_bytes_max == 4000);
  CHECK(options.store.waited_keys_max == 8);
  CHECK(options.store.store_bytes_max == 10);
  CHECK_FALSE(options.store.serves_store);
  CHECK(options.store.reply_backlog_bytes_max == 9);
  CHECK(options.store.handshake_timeout == 500ms);
  CHECK(options.listen_timeout == 2s);
  CHECK(options.log_level == LogLevel::info);
  CHECK(options.stats_interval == 10s);
  CHECK_FALSE(parsed({"--allow-uid=any"}).store.check_uid);
  CHECK(parsed({"--log-level=warn"}).log_level == LogLevel::warning);
  CHECK(parsed({"--log-level=off"}).log_level == LogLevel::off);
  CHECK(parsed({"--log-level=INFO"}).log_level == LogLevel::info);  // as in Python
}

TEST_CASE("the secret of rdzvd is what its file holds, and no other file will do") {
  CHECK(parsed({}).secret.empty());
  const ddprun::test::TempDir dir;
  const std::string path = dir / "secret";
  std::ofstream(path) << "sixteen bytes or more\n";
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  CHECK(parsed({"--secret-file=" + path}).secret == "sixteen bytes or more");
  CHECK(contains(refused({"--secret-file=" + path + ".not"}),
                 "rdzvd: --secret-file: cannot read the secret file " + path + ".not: No such"));
  refused({"--secret-file="});  // as of a variable that is not set
}

TEST_CASE("rdzvd encrypts with the key of a secret only") {
  CHECK(parsed({}).encrypter == nullptr);
  CHECK(contains(refused({"--tls"}),
                 "--tls: the key comes from a secret, and there is none: add --secret-file=FILE"));
  const ddprun::test::TempDir dir;
  ddprun::test::tls();
  CHECK(parsed({"--tls", "--secret-dir=" + dir.path().string()}).encrypter != nullptr);
}

TEST_CASE("rdzvd encrypts with a certificate and its key, and asks others by their authority") {
  CHECK(contains(refused({"--tls-cert=a"}), "--tls-cert: the key of that certificate is missing"));
  CHECK(contains(refused({"--tls-key=a"}), "--tls-key: the certificate of that key is missing"));
  CHECK(contains(refused({"--tls-ca=a"}), "--tls-ca: a certificate for rdzvd is missing"));
  CHECK(contains(refused({"--status", "--tls-cert=a", "--tls-key=b"}),
                 "--tls-cert: the authority of the rendezvous is missing: add --tls-ca=FILE"));
  refused({"--tls-cert=", "--tls-key=b"});
  ddprun::test::tls();
  CHECK(contains(refused({"--tls-cert=/nowhere", "--tls-key=/nowhere"}),
                 "rdzvd: --tls-cert=/nowhere: cannot read it: No such file"));
  ddprun::test::TestAuthority authority;
  const auto files = authority.issue("rdzvd");
  const Words own = {"--tls-cert=" + files.certificate, "--tls-key=" + files.key};
  const auto encrypter = parsed(own).encrypter;
  REQUIRE(encrypter != nullptr);
  CHECK_FALSE(encrypter->checks_clients());
  Words mutual = own;
  mutual.push_back("--tls-ca=" + authority.file());
  CHECK(parsed(mutual).encrypter->checks_clients());
  REQUIRE(chmod(files.key.c_str(), 0644) == 0);
  const auto warnings = parsed(own).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], "other users have access to the key"));
}

TEST_CASE("wrong use of rdzvd is named in one line") {
  CHECK(contains(refused({"--lisen=1"}), "unknown option --lisen; did you mean --listen?"));
  CHECK(refused({"--max-restarts=1"}) == "rdzvd: --max-restarts is an option of ddprun\n");
  CHECK(contains(refused({"serve"}), "unexpected argument serve"));
  CHECK(contains(refused({"--listen=host"}), "--listen=host: the port is missing; must be"));
  CHECK(contains(refused({"--max-clients=none"}), "must be a number from 1 to"));
  CHECK(contains(refused({"--max-key-bytes=0"}), "must be a number from 1 to"));
  CHECK(contains(refused({"--handshake-timeout=-1"}),
                 "must be seconds, as in 30, 0.5, 500ms, 2m or 1h, not -1"));
  CHECK(contains(refused({"--log-level=loud"}),
                 "must be one of trace, debug, info, warning, error, off"));
  CHECK(contains(refused({"--allow-uid=no such user"}), "there is no user no such user"));
  CHECK(contains(refused({"--max-value-bytes=300000000"}), "--max-request-bytes=268435456"));
  CHECK(contains(refused({"--listen"}), "--listen needs a value: --listen=HOST:PORT (see rdzvd"));
  CHECK(contains(refused({"--listen=", "--state-dir=x"}), "--listen needs a value: --listen=HOST"));
  CHECK(contains(refused({"--listen=a\x1b[31m\nb"}), "--listen=a\\x1b[31m"));
  for (const Words& words :
       {Words{"--lisen=1"}, Words{"--listen"}, Words{"x", "y"}, Words{"--listen=a\nb"}}) {
    const std::string text = refused(words);
    CHECK(text.find('\n') == text.size() - 1);
  }
}

TEST_CASE("the man page and all completions name every option of the help") {
  const Words names = options_in_help();
  REQUIRE(names.size() >= 17);
  const std::string man = printed("--man");
  for (std::string name : names) {
    INFO(name);
    CHECK(contains(printed("--completion=bash"), name));
    CHECK(contains(printed("--completion=zsh"), name));
    CHECK(contains(printed("--completion=tcsh"), name));
    CHECK(contains(printed("--completion=fish"), " -l " + name.substr(2)));
    std::string in_roff;
    for (const char c : name) in_roff += c == '-' ? "\\-" : std::string(1, c);
    CHECK(contains(man, "\\fB" + in_roff + "\\fR"));
  }
}

TEST_CASE("the other programs know all options of rdzvd but those that all programs have") {
  const Words own = options_in_help();
  std::set<std::string> names(own.begin(), own.end());
  for (const auto* common : {"--completion", "--man", "--version", "--help"}) names.erase(common);
  std::set<std::string> known;
  for (const auto name : ddprun::options_of("rdzvd")) known.insert("--" + std::string(name));
  CHECK(names == known);
}

TEST_CASE("help and version are answers, not errors") {
  CHECK(contains(printed("--version"), "rdzvd"));
  CHECK(contains(printed("-h"), "--rdzv-endpoint=HOST:29400"));
  ddprun::test::check_short_help("rdzvd", printed("-h"));
}

TEST_CASE("log lines wait for a stopped reader, and lines beyond the limit are counted") {
  const auto queue = LineQueue::make().value();
  LineQueue& lines = *queue;
  Pipe pipe;
  fcntl(pipe.in.get(), F_SETPIPE_SZ, 4096);
  for (std::size_t i = 0; i < LineQueue::kLinesMax + 50; ++i) lines.push(std::string(99, 'x'));
  CHECK_FALSE(lines.flush(pipe.in.get()));
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    all += pipe.drain();
    if (lines.flush(pipe.in.get())) break;
  }
  all += pipe.drain();
  const std::string last = "rdzvd: dropped 50 lines that were not read\n";
  REQUIRE(all.size() == LineQueue::kLinesMax * 100 + last.size());
  CHECK(all.ends_with(last));
}

TEST_CASE("a log line stays one line, and controls no terminal") {
  const auto queue = LineQueue::make().value();
  Pipe pipe;
  queue->push("key a\nb\x1b[31m");
  CHECK(queue->flush(pipe.in.get()));
  CHECK(pipe.drain() == "key a\\nb\\x1b[31m\n");
}

TEST_CASE("a line that is too long is cut, and lines for a closed pipe are gone") {
  const auto queue = LineQueue::make().value();
  LineQueue& lines = *queue;
  Pipe pipe;
  lines.push(std::string(100000, 'y'));
  CHECK(lines.flush(pipe.in.get()));
  const std::string line = pipe.drain();
  CHECK(line.size() == LineQueue::kLineBytesMax + 4);
  CHECK(line.ends_with("y...\n"));
  const UniqueFd nowhere(open("/dev/null", O_RDONLY | O_CLOEXEC));
  lines.push("lost");
  CHECK(lines.flush(nowhere.get()));
  CHECK(lines.flush(pipe.in.get()));
  CHECK(pipe.drain().empty());
}

TEST_CASE("rdzvd keeps a journal only in a folder that it is given") {
  CHECK(parsed({}).state_dir.empty());
  CHECK(parsed({"--state-dir=/var/lib/rdzvd"}).state_dir == "/var/lib/rdzvd");
  CHECK(contains(refused({"--state-dir="}), "--state-dir"));
  const DaemonOptions shared = parsed({"--journal=etcd://h1:1,h2/jobs"});
  REQUIRE(shared.etcd.has_value());
  CHECK(shared.etcd->members == std::vector<Endpoint>{{"h1", 1}, {"h2", 2379}});
  CHECK(shared.etcd->prefix == "jobs");
  CHECK(contains(refused({"--journal=/var/lib/rdzvd"}), "--state-dir=DIR"));
  CHECK(contains(refused({"--journal=etcd://h1", "--state-dir=x"}), "give one of them"));
}

TEST_CASE("rdzvd gets into an etcd by TLS, a certificate and a user, and names what is missing") {
  CHECK(contains(refused({"--etcd-ca=a"}), "--etcd-ca: only with --journal=etcd://"));
  CHECK(contains(refused({"--journal=etcd://h", "--etcd-ca=a"}),
                 "--etcd-ca: write etcds:// in --journal, in place of etcd://"));
  CHECK(contains(refused({"--journal=etcds://h", "--etcd-cert=a"}), "add --etcd-key=FILE"));
  CHECK(contains(refused({"--journal=etcds://h", "--etcd-key=a"}), "add --etcd-cert=FILE"));
  CHECK(
      contains(refused({"--journal=etcd://h", "--etcd-user=a"}), "add --etcd-password-file=FILE"));
  CHECK(
      contains(refused({"--journal=etcd://h", "--etcd-password-file=a"}), "add --etcd-user=NAME"));
  refused({"--journal=etcd://h", "--etcd-user="});
  ddprun::test::tls();
  CHECK(contains(refused({"--journal=etcds://h", "--etcd-ca=/nowhere"}),
                 "--etcd-ca=/nowhere: cannot read it"));
  CHECK(parsed({"--journal=etcds://h"}).etcd_access.encrypter != nullptr);
  const ddprun::test::TempDir folder;
  const std::string file = folder.path() / "password";
  std::ofstream(file) << " a b\n";
  REQUIRE(chmod(file.c_str(), 0600) == 0);
  const auto with_user = [&](const std::string& journal) {
    return parsed({"--journal=" + journal, "--etcd-user=ann", "--etcd-password-file=" + file});
  };
  const auto plain = with_user("etcd://127.0.0.1,h");
  REQUIRE(plain.warnings.size() == 1);
  CHECK(contains(plain.warnings[0], "--etcd-user: its password goes to etcd unencrypted"));
  CHECK(with_user("etcds://h").warnings.empty());
  const auto local = with_user("etcd://127.0.0.1,localhost,[::1]");
  CHECK(local.warnings.empty());
  const auto& access = local.etcd_access;
  CHECK(access.encrypter == nullptr);
  CHECK(access.user == "ann");
  CHECK(access.password == " a b");
}

TEST_CASE("every option has one example, which names it and is accepted") {
  ddprun::test::tls();  // some are about it
  const ddprun::test::TempDir folder;
  const std::string secret = folder.path() / "secret";
  std::ofstream(secret) << "sixteen bytes, 16\n";
  REQUIRE(chmod(secret.c_str(), 0600) == 0);
  ddprun::test::TestAuthority authority;
  const auto files = authority.issue("rdzvd");
  const std::array<std::pair<std::string, std::string>, 8> real{{
      {"--secret-file=secret", "--secret-file=" + secret},
      {"--etcd-password-file=secret", "--etcd-password-file=" + secret},
      {"--etcd-cert=rdzvd.pem", "--etcd-cert=" + files.certificate},
      {"--etcd-key=rdzvd.key", "--etcd-key=" + files.key},
      {"--etcd-ca=ca.pem", "--etcd-ca=" + authority.file()},
      {"--tls-cert=rdzvd.pem", "--tls-cert=" + files.certificate},
      {"--tls-key=rdzvd.key", "--tls-key=" + files.key},
      {"--tls-ca=ca.pem", "--tls-ca=" + authority.file()},
  }};
  std::set<std::string> with_example;
  for (const auto& [option, command] : option_examples()) {
    INFO(command);
    CHECK(with_example.insert(option).second);
    Words words = ddprun::test::arguments_after("rdzvd", command);
    CHECK(ddprun::test::names_option(words, option));
    for (const auto& [shown, given] : real) std::replace(words.begin(), words.end(), shown, given);
    const auto result = parse_daemon_options(words);
    if (const auto* exit = std::get_if<DaemonExit>(&result); exit != nullptr && exit->code != 0)
      FAIL_CHECK(exit->text);
  }
  const Words names = options_in_help();
  CHECK(with_example == std::set<std::string>(names.begin(), names.end()));
}

TEST_CASE("the page in Markdown has every example") {
  const std::string page = printed("--man=markdown");
  CHECK(page.starts_with("# rdzvd\n"));
  for (const auto& [option, command] : option_examples())
    CHECK(contains(page, "```sh\n" + command + "\n```\n"));
}
