#include "sim/core/faults/plan.h"

#include <gtest/gtest.h>

namespace understudy::faults {
namespace {

Plan plan_of(std::string_view text) {
  auto parsed = parse_plan(text, "plan.toml");
  if (auto* error = std::get_if<PlanError>(&parsed)) ADD_FAILURE() << error->message;
  return std::get<Plan>(parsed);
}

std::string error_of(std::string_view text) {
  auto parsed = parse_plan(text, "plan.toml");
  auto* error = std::get_if<PlanError>(&parsed);
  return error ? error->message : "accepted";
}

TEST(FaultPlan, ReadsARule) {
  const Plan plan = plan_of(R"(
seed = 7
[[fault]]
name = "third big allocation"
call = "ALLOC_MEMORY_OF_GPU"
node = "kfd"
when = 3
where = { size = ">=2MiB", flags = "&KFD_IOC_ALLOC_MEM_FLAGS_VRAM" }
errno = "ENOMEM"
)");
  EXPECT_EQ(plan.seed, 7u);
  ASSERT_EQ(plan.rules.size(), 1u);
  const Rule& rule = plan.rules[0];
  EXPECT_EQ(rule.match.when.first, 3u);
  EXPECT_EQ(rule.match.when.last, 3u);
  EXPECT_EQ(std::get<FailWith>(rule.act).error, 12);
  ASSERT_EQ(rule.match.where.size(), 2u);
  // TOML tables are read in the order of their keys.
  EXPECT_EQ(rule.match.where[0].field, "flags");
  EXPECT_EQ(rule.match.where[0].op, Condition::Op::kHasBits);
  EXPECT_EQ(rule.match.where[0].value, 1u);
  EXPECT_EQ(rule.match.where[1].op, Condition::Op::kGreaterEqual);
  EXPECT_EQ(rule.match.where[1].value, 2u << 20);
}

TEST(FaultPlan, ReadsEachAction) {
  const auto act = [](const std::string& line) { return plan_of("[[fault]]\n" + line).rules.at(0).act; };
  EXPECT_EQ(std::get<DelayBy>(act("delay = \"5ms\"")).delay_ns, 5'000'000u);
  EXPECT_EQ(std::get<HoldUntil>(act("hold_until = \"GEM_CLOSE\"")).call, "GEM_CLOSE");
  EXPECT_EQ(std::get<ShortData>(act("short_bytes = 4")).bytes, 4u);
  EXPECT_EQ(std::get<ShortData>(act("stale = true")).bytes, 0u);
  EXPECT_FALSE(std::get<CrashServer>(act("crash = \"after-reply\"")).before_reply);
  EXPECT_EQ(std::get<AtPoint>(act("lose = \"interrupt\"")).point, FaultPoint::kInterrupt);
  EXPECT_EQ(std::get<AtPoint>(act("duplicate = \"completion\"")).decision, PointDecision::kDuplicate);
  EXPECT_EQ(std::get<AtPoint>(act("stick = \"queue\"")).point, FaultPoint::kQueueProgress);
  EXPECT_EQ(std::get<AtPoint>(act("hang = \"firmware\"")).point, FaultPoint::kFirmware);
  EXPECT_EQ(std::get<AtPoint>(act("corrupt = \"virtio-response\"")).decision, PointDecision::kCorrupt);
  const auto press =
      std::get<Press>(act("press = { device = \"dri/renderD128\", action = \"reset\", vram_lost = true }"));
  EXPECT_EQ(press.action, "reset");
  EXPECT_TRUE(press.arguments.vram_lost);
}

TEST(FaultPlan, ErrorsNameFileAndLine) {
  EXPECT_TRUE(
      error_of("[[fault]]\nerrno = \"ENOMEM\"\nwen = 3\n").starts_with("plan.toml:3: unknown key 'wen'"));
  EXPECT_TRUE(
      error_of("[[fault]]\nerrno = \"EWHAT\"\n").starts_with("plan.toml:2: 'EWHAT' is no errno name"));
  EXPECT_TRUE(
      error_of("\n[[fault]]\ncall = \"open\"\n").starts_with("plan.toml:2: a fault without an action"));
  EXPECT_TRUE(error_of("[[fault]]\nerrno = \"EIO\"\ndelay = 5\n").find("a fault does one thing") !=
              std::string::npos);
  EXPECT_TRUE(
      error_of("[[fault]]\nerrno = \"EIO\"\nwhen = \"3-\"\n").starts_with("plan.toml:3: 'when = \"3-\"'"));
  EXPECT_TRUE(
      error_of("[[fault]]\nerrno = \"EIO\"\nprobability = 2.0\n").starts_with("plan.toml:3: 'probability'"));
  EXPECT_TRUE(
      error_of("[[fault]]\nlose = \"weight\"\n").starts_with("plan.toml:2: 'lose' accepts \"interrupt\""));
  EXPECT_TRUE(error_of("faults = 1\n").starts_with("plan.toml:1: unknown key 'faults'"));
  EXPECT_TRUE(error_of("[[fault]\n").starts_with("plan.toml:1:"));
}

TEST(Glob, StarsAndQuestionMarks) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("dri/renderD12?", "dri/renderD128"));
  EXPECT_TRUE(glob_matches("*render*9", "dri/renderD129"));
  EXPECT_FALSE(glob_matches("kfd", "kfd2"));
  EXPECT_FALSE(glob_matches("a*b*c", "a-b-d"));
}

TEST(Glob, CallsMatchWithAndWithoutPrefix) {
  EXPECT_TRUE(call_matches("ALLOC_MEMORY_OF_GPU", "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU"));
  EXPECT_TRUE(call_matches("AMDKFD_IOC_*", "AMDKFD_IOC_GET_VERSION"));
  EXPECT_TRUE(call_matches("GEM_VA", "DRM_IOCTL_AMDGPU_GEM_VA"));
  EXPECT_TRUE(call_matches("GEM_CLOSE", "DRM_IOCTL_GEM_CLOSE"));
  EXPECT_FALSE(call_matches("GEM", "DRM_IOCTL_GEM_CLOSE"));
}

}  // namespace
}  // namespace understudy::faults
