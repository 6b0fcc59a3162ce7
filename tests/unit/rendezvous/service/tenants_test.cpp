// Which tenant a job belongs to, what it sees of the others, and how much it may have.
#include "rendezvous/service/tenants.hpp"

#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using proto::Refused;
using proto::Status;
using proto::Welcome;
using test::nodes;
using test::ServiceScript;

namespace {

std::string tenant_of(const rdzv::Tenants& tenants, std::string_view run_id) {
  const std::string* name = tenants.of(run_id);
  return name != nullptr ? *name : "none";
}

rdzv::ServiceSettings settings_with(std::size_t jobs_max, std::size_t nodes_max) {
  rdzv::ServiceSettings settings = ServiceScript::with_secret();
  settings.tenant_limits = {jobs_max, nodes_max};
  return settings;
}

ServiceScript service_of(const std::set<std::string, std::less<>>& names,
                         std::size_t jobs_max = 100, std::size_t nodes_max = 100) {
  ServiceScript service(settings_with(jobs_max, nodes_max));
  static_cast<void>(service.core.on(rdzv::TenantsChanged{rdzv::Tenants(names)}, service.now));
  return service;
}

std::vector<std::string> jobs_shown(ServiceScript& service, const std::string& run_id) {
  const auto observer = service.open(run_id);
  service.say(observer, proto::StatusRequest{});
  const auto* status = service.last<Status>(observer);
  REQUIRE(status != nullptr);
  std::vector<std::string> names;
  for (const proto::JobStatus& job : status->jobs) names.push_back(job.run_id);
  CHECK(status->job_count == static_cast<int>(names.size()));
  return names;
}

std::string refusal(ServiceScript& service, rdzv::ConnectionId connection) {
  const auto* refused = service.last<Refused>(connection);
  return refused != nullptr ? refused->reason : "none";
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a job belongs to the tenant with its name, or else with the longest prefix of it") {
  const rdzv::Tenants tenants({"vision-*", "vision-7", "vision-7*", "nlp", "*"});
  CHECK(tenant_of(tenants, "vision-7") == "vision-7");
  CHECK(tenant_of(tenants, "vision-70") == "vision-7*");
  CHECK(tenant_of(tenants, "vision-1") == "vision-*");
  CHECK(tenant_of(tenants, "vision-") == "vision-*");
  CHECK(tenant_of(tenants, "vision") == "*");
  CHECK(tenant_of(tenants, "nlp") == "nlp");
  CHECK(tenant_of(tenants, "nlp2") == "*");
  CHECK(tenant_of(rdzv::Tenants({"vision-*"}), "nlp") == "none");
  CHECK(tenant_of(rdzv::Tenants({"vision-*"}), "") == "none");
  CHECK(tenant_of(rdzv::Tenants(), "nlp") == "none");
}

TEST_CASE(
    "a name that stands for many jobs belongs to the tenant with that name or a shorter one") {
  const rdzv::Tenants tenants({"vision-*", "vision-7", "*"});
  CHECK(tenant_of(tenants, "vision-*") == "vision-*");
  CHECK(tenant_of(tenants, "vision-7*") == "vision-*");
  CHECK(tenant_of(tenants, "vision*") == "*");
  CHECK(tenant_of(tenants, "*") == "*");
  CHECK(tenant_of(tenants, "") == "*");
}

TEST_CASE("status shows a tenant its own jobs only") {
  ServiceScript service = service_of({"vision-*", "vision-secret", "nlp", "*"});
  for (const std::string job : {"nlp", "other", "vision-1", "vision-2", "vision-secret"})
    static_cast<void>(service.join("a", nodes(1, 1, 3), job));
  CHECK(jobs_shown(service, "vision-*") == Names{"vision-1", "vision-2"});
  CHECK(jobs_shown(service, "vision-2*") == Names{"vision-2"});
  CHECK(jobs_shown(service, "vision-1") == Names{"vision-1"});
  CHECK(jobs_shown(service, "nlp") == Names{"nlp"});
  CHECK(jobs_shown(service, "") == Names{"other"});
  CHECK(jobs_shown(service, "*") == Names{"other"});

  static_cast<void>(
      service.core.on(rdzv::TenantsChanged{rdzv::Tenants({"vision-*"})}, service.now));
  CHECK(jobs_shown(service, "vision-*") == Names{"vision-1", "vision-2", "vision-secret"});
  CHECK(jobs_shown(service, "").empty());
  CHECK(jobs_shown(service, "nlp").empty());
}

TEST_CASE("where there is one tenant, a prefix shows the jobs that begin with it") {
  ServiceScript service;
  for (const std::string job : {"nlp", "vision-1", "vision-2"})
    static_cast<void>(service.join("a", nodes(1, 1, 3), job));
  CHECK(jobs_shown(service, "vision-*") == Names{"vision-1", "vision-2"});
  CHECK(jobs_shown(service, "") == Names{"nlp", "vision-1", "vision-2"});
  CHECK(jobs_shown(service, "*") == Names{"nlp", "vision-1", "vision-2"});
  CHECK(jobs_shown(service, "audio*").empty());
}

TEST_CASE("a fence names no job of another tenant") {
  ServiceScript service = service_of({"vision-*", "nlp*"});
  for (const std::string job : {"nlp-1", "vision-1"})
    static_cast<void>(service.join("a", nodes(1, 1, 3), job));
  const auto observer = service.open("vision-2");
  service.say(observer, proto::Fence{"a"});
  CHECK(refusal(service, observer) == "there is no job 'vision-2'; the jobs here: vision-1");
}

TEST_CASE("a tenant has so many jobs, and those of others and those that are over do not count") {
  ServiceScript service = service_of({"vision-*", "nlp*"}, 2);
  const auto first = service.join("a", nodes(1, 1, 3), "vision-1");
  static_cast<void>(service.join("a", nodes(1, 1, 3), "vision-2"));
  static_cast<void>(service.join("a", nodes(1, 1, 3), "nlp"));
  const auto refused = service.begin("a", "vision-3");
  REQUIRE(service.last<Refused>(refused) != nullptr);
  CHECK(service.last<Refused>(refused)->why == Refused::Why::limit);
  CHECK(refusal(service, refused) ==
        "the jobs named vision-* are 2 already, as many as one tenant may have here");
  CHECK(service.core.job("vision-3") == nullptr);
  CHECK(service.last<Welcome>(service.begin("a", "nlp2")) != nullptr);

  service.say(first, 2, proto::WorkersDone{0});
  service.say(first, proto::Bye{});
  CHECK(service.last<Welcome>(service.begin("a", "vision-3")) != nullptr);
  // The first job is over. It may begin anew when there is room for it.
  CHECK_THAT(refusal(service, service.begin("b", "vision-1")), Contains("are 2 already"));
}

TEST_CASE("a tenant has so many nodes in all of its jobs, and keeps those that it has") {
  ServiceScript service = service_of({"vision-*", "nlp*"}, 100, 3);
  static_cast<void>(service.join("a", nodes(9, 9, 3), "vision-1"));
  const auto b = service.join("b", nodes(9, 9, 3), "vision-1");
  static_cast<void>(service.join("c", nodes(9, 9, 3), "vision-2"));
  const std::string full =
      "the jobs named vision-* have 3 nodes already, as many as one tenant may have here";
  CHECK(refusal(service, service.begin("d", "vision-1")) == full);
  CHECK(refusal(service, service.begin("d", "vision-3")) == full);
  CHECK(service.last<Welcome>(service.begin("d", "nlp")) != nullptr);
  // One that comes back has its place.
  service.end(b, false);
  const auto again = service.open("vision-1");
  service.say(again, ServiceScript::resume_of("b", 2));
  REQUIRE(service.last<Welcome>(again) != nullptr);
  CHECK(service.last<Welcome>(again)->resumed);
}

TEST_CASE("no job has the name of many jobs where there are tenants") {
  ServiceScript service = service_of({"vision-*"});
  CHECK_THAT(refusal(service, service.begin("a", "vision-*")), Contains("must not end with '*'"));
  CHECK(service.core.job("vision-*") == nullptr);
  ServiceScript with_one;
  CHECK(with_one.last<Welcome>(with_one.begin("a", "vision-*")) != nullptr);
}
