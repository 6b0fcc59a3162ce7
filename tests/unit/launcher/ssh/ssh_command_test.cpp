// The command lines that start ddprun on other hosts.
#include "launcher/ssh/ssh_command.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace ddprun::launcher;
using Words = std::vector<std::string>;

namespace {

Words words(std::string_view text) {
  auto taken = words_of_command(text, "--ssh");
  return taken ? *taken : Words{"! " + taken.error().message};
}

}  // namespace

TEST_CASE("the command of --ssh is taken apart as a shell would") {
  CHECK(words("ssh") == Words{"ssh"});
  CHECK(words("  ssh  -p 2222 ") == Words{"ssh", "-p", "2222"});
  CHECK(words("ssh -F 'my config' -o \"ProxyCommand=nc \\\"%h\\\" %p\" a\\ b ''") ==
        Words{"ssh", "-F", "my config", "-o", "ProxyCommand=nc \"%h\" %p", "a b", ""});
  CHECK(words("ssh 'a") == Words{"! --ssh: a quote (') is not closed"});
  CHECK(words(" ")[0].starts_with("! --ssh: expected a command"));
}

TEST_CASE("ssh asks nothing, shares no connection, and forwards a socket to the rendezvous") {
  const Words all =
      ssh_arguments({{"ssh", "-o", "BatchMode=no"}, "", "/opt/ddprun"}, "me@a", "/tmp/s", 4711);
  const auto at = [&](const std::string& word) {
    return std::find(all.begin(), all.end(), word) - all.begin();
  };
  CHECK(all.front() == "ssh");
  // The first value counts.
  CHECK(at("BatchMode=yes") < at("BatchMode=no"));
  for (const char* option : {"ControlPath=none", "ExitOnForwardFailure=yes", "-T"})
    CHECK(at(option) < at("BatchMode=no"));
  // These may be the user's.
  for (const char* option : {"ConnectTimeout=30", "ServerAliveInterval=5", "LogLevel=ERROR"})
    CHECK(at(option) > at("BatchMode=no"));
  CHECK(all[static_cast<std::size_t>(at("-R")) + 1] == "/tmp/s:127.0.0.1:4711");
  REQUIRE(all.size() > 3);
  CHECK(all[all.size() - 3] == "--");
  CHECK(all[all.size() - 2] == "me@a");
}

TEST_CASE("the command on a host is the one of --remote-path, else ours, else one in PATH") {
  const std::string none = "rm -f \"$1\"; echo \"$0: not found, or not executable\" >&2; exit 127'";
  const std::string this_one = "exec sh -c 'test -x \"$0\" && exec \"$0\" --ssh-node \"$1\"; ";
  const std::string in_path = "command -v ddprun >/dev/null && exec ddprun --ssh-node \"$1\"; ";
  CHECK(remote_command({{"ssh"}, "/opt/d", "/x"}, "/tmp/s") == this_one + none + " /opt/d /tmp/s");
  CHECK(remote_command({{"ssh"}, "", "/x y/ddprun"}, "/tmp/s") ==
        this_one + in_path + none + " '/x y/ddprun' /tmp/s");
  CHECK(remote_command({{"ssh"}, "", ""}, "/tmp/s") ==
        this_one + in_path + none + " ddprun /tmp/s");
  CHECK(remote_command({{"ssh"}, "/it's\\d", ""}, "s").ends_with(R"( '/it'\''s'\\'d' s)"));
}
