#include "sim/core/ledger.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

TEST(Ledger, EntryClosesWithItsScope) {
  Ledger ledger;
  {
    const LedgerEntry entry = ledger.open(ObjectKind::kQueue, nullptr, "queue 0");
    EXPECT_EQ(ledger.live_count(ObjectKind::kQueue), 1u);
    EXPECT_EQ(ledger.live().front().label, "queue 0");
  }
  EXPECT_EQ(ledger.live_count(ObjectKind::kQueue), 0u);
  EXPECT_EQ(ledger.opened_count(ObjectKind::kQueue), 1u);
}

TEST(Ledger, MovedEntryClosesOnce) {
  Ledger ledger;
  LedgerEntry first = ledger.open(ObjectKind::kEvent, nullptr, "a");
  LedgerEntry second = ledger.open(ObjectKind::kEvent, nullptr, "b");
  first = std::move(second);
  EXPECT_EQ(ledger.live_count(ObjectKind::kEvent), 1u);
  EXPECT_EQ(ledger.live().front().label, "b");
}

TEST(Ledger, RemembersWhatWasDestroyed) {
  Ledger ledger;
  EXPECT_FALSE(ledger.was_destroyed("handle 1", nullptr));
  ledger.note_destroyed("handle 1", nullptr);
  EXPECT_TRUE(ledger.was_destroyed("handle 1", nullptr));
}

TEST(Ledger, ForgetsTheOldestDestroyed) {
  Ledger ledger;
  for (int i = 0; i < 70000; ++i) ledger.note_destroyed(std::to_string(i), nullptr);
  EXPECT_FALSE(ledger.was_destroyed("0", nullptr));
  EXPECT_TRUE(ledger.was_destroyed("69999", nullptr));
}

TEST(Ledger, NamesAreStable) {
  EXPECT_STREQ(finding_kind_name(FindingKind::kLeak), "leak");
  EXPECT_STREQ(finding_kind_name(FindingKind::kSkippedWork), "skipped-work");
  EXPECT_STREQ(object_kind_name(ObjectKind::kResource), "resource");
}

}  // namespace
}  // namespace understudy
