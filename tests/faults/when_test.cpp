#include "sim/core/faults/when.h"

#include <gtest/gtest.h>

#include <string>

namespace understudy::faults {
namespace {

// The occurrences from 1 to 12 that `text` takes.
std::string taken(const char* text) {
  const auto when = When::parse(text);
  if (!when) return "malformed";
  std::string numbers;
  for (int occurrence = 1; occurrence <= 12; ++occurrence) {
    if (when->takes(occurrence)) numbers += std::to_string(occurrence) + " ";
  }
  return numbers;
}

TEST(When, ReadsLikeStraces) {
  EXPECT_EQ(taken("5"), "5 ");
  EXPECT_EQ(taken("10+"), "10 11 12 ");
  EXPECT_EQ(taken("5+3"), "5 8 11 ");
  EXPECT_EQ(taken("2..4"), "2 3 4 ");
  EXPECT_EQ(taken("2..9+3"), "2 5 8 ");
}

TEST(When, MalformedTextIsRefused) {
  for (const char* text :
       {"", "0", "x", "5-", "5..", "5..2", "2..9+", "5+0", "5 ", "+3", "99999999999999999999"}) {
    EXPECT_EQ(taken(text), "malformed") << text;
  }
}

}  // namespace
}  // namespace understudy::faults
