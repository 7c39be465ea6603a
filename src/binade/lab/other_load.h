#pragma once

namespace binade::lab {

// Notices what other processes take of this machine's CPUs, which makes measurements too slow.
class OtherLoad {
 public:
  OtherLoad();
  // The fraction of all CPUs' time that others have used since; 0 if the system does not say.
  double fraction() const;

 private:
  struct Times {
    double all = 0, busy = 0, own = 0;  // seconds
  };
  static Times now();

  Times begin_;
};

}  // namespace binade::lab
