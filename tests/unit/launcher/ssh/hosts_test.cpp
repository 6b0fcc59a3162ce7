// The hosts of --hosts and --hostfile.
#include "launcher/ssh/hosts.hpp"

#include <catch2/catch.hpp>

using namespace ddprun::launcher;

namespace {

std::string shown(const LaunchResult<std::vector<SshHost>>& hosts) {
  if (!hosts) return "! " + hosts.error().message;
  std::string text;
  for (const SshHost& host : *hosts) {
    text += (text.empty() ? "" : " ") + host.name;
    if (host.slots) text += "=" + std::to_string(*host.slots);
  }
  return text;
}
std::string in_list(std::string_view list) { return shown(hosts_in_list(list, "--hosts")); }
std::string in_file(std::string_view text) { return shown(hosts_in_file(text, "--hostfile=f")); }

}  // namespace

TEST_CASE("hosts are named one by one, by ranges, with users and with numbers of workers") {
  CHECK(in_list("a") == "a");
  CHECK(in_list("a,b[1-3]") == "a b1 b2 b3");
  CHECK(in_list(" a , b ,") == "a b");
  CHECK(in_list("n[08-10,12]-ib") == "n08-ib n09-ib n10-ib n12-ib");
  CHECK(in_list("me@a,b[1-2]:4,c:1") == "me@a b1=4 b2=4 c=1");
  CHECK(in_list("fe80::1,::1") == "fe80::1 ::1");
}

TEST_CASE("a wrong list of hosts is refused with the reason") {
  CHECK(in_list("") == "! --hosts: it names no host; give names as in --hosts=a,b[1-4]");
  CHECK(in_list(" ,, ") == "! --hosts: it names no host; give names as in --hosts=a,b[1-4]");
  CHECK(in_list("a,b[1-4").starts_with("! --hosts: b[1-4: character 2: '[' is not closed"));
  CHECK(in_list("a]").find("']' without '['") != std::string::npos);
  CHECK(in_list("a,b,a").starts_with("! --hosts: a: the host is named twice"));
  CHECK(in_list("a[1-2],a2").starts_with("! --hosts: a2: the host is named twice"));
  CHECK(in_list("-oProxyCommand=x").find("does not begin with a dash") != std::string::npos);
  CHECK(in_list("a:0").find("expected the number of workers") != std::string::npos);
  CHECK(in_list("a:ssh").find("expected the number of workers") != std::string::npos);
  CHECK(in_list("a[1-9999],b[1-9999]").find("more than 10000 hosts") != std::string::npos);
}

TEST_CASE("files of hosts are those of DeepSpeed and of mpirun") {
  CHECK(in_file("a slots=8\nb slots=4\n") == "a=8 b=4");
  CHECK(in_file("# all\na:8\n\n  b   slots=8 max_slots=8  # the second\nc max-slots=2\nd\r\n") ==
        "a=8 b=8 c d");
  CHECK(in_file("n[1-2] slots=2") == "n1=2 n2=2");
  CHECK(in_file("").starts_with("! --hostfile=f: it names no host"));
  CHECK(in_file("a\nb slots=x\n")
            .starts_with("! --hostfile=f: line 2: slots=x: expected a number of workers, slots=N"));
  CHECK(in_file("a gpus=2").find("line 1: gpus=2: expected a number") != std::string::npos);
}

TEST_CASE("a file that names a host several times has so many workers of it") {
  CHECK(in_file("n1\nn1\nn2\nn2\n") == "n1=2 n2=2");
  CHECK(in_file("n1\nn2\nn1\nn3\n") == "n1=2 n2=1 n3=1");  // slots that lie apart
  CHECK(in_file("n1\nn2\n") == "n1 n2");
  CHECK(in_file("n1 slots=2\nn1 slots=3\nn2\n") == "n1=5 n2=1");
  CHECK(in_file("n1:2\nn1\n") == "n1=3");
  CHECK(in_file("n[1-2]\nn2\n") == "n1=1 n2=2");
  CHECK(in_file("a slots=65536\n\na\n") == "! --hostfile=f: line 3: a: more than 65536 workers");
}

TEST_CASE("a number behind a host's name is that of its workers, also in SGE's files") {
  CHECK(in_file("a 8\nb 4 max_slots=4\n") == "a=8 b=4");
  CHECK(in_file("n1 2 all.q@n1 UNDEFINED\nn2 2 all.q@n2 <NULL>\n") == "n1=2 n2=2");
  CHECK(in_file("n1 8 all.q@n1 0,0:0,1") == "n1=8");
  CHECK(in_file("n1 8 all.q@n1") == "n1=8");
  CHECK(in_file("a 0").find("line 1: 0: expected a number of workers") != std::string::npos);
  CHECK(in_file("a 8 b").find("line 1: b: expected a number of workers") != std::string::npos);
  CHECK(in_file("a 8 8").find("line 1: 8: expected") != std::string::npos);
}

TEST_CASE("a file of hosts may begin with a byte order mark") {
  CHECK(in_file("\xef\xbb\xbf"
                "a slots=2\r\nb slots=2\r\n") == "a=2 b=2");
  CHECK(in_file("\xef\xbb\xbf").starts_with("! --hostfile=f: it names no host"));
}
