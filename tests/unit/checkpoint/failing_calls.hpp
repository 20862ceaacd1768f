// SPDX-License-Identifier: Apache-2.0
// Makes system calls of this test program fail at will: the program's own write, fsync, close,
// rename, mkdir and symlink stand before the C library's.
#pragma once

namespace trireme::test {

// While it lives, call number `nth` (from 1, counted over all six) fails with `error`; all later
// ones too if `for_good`. One at a time; calls of all threads count.
class FailingCalls {
 public:
  FailingCalls(int nth, int error, bool for_good);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  bool reached() const;  // whether the nth call was made
};

}  // namespace trireme::test
