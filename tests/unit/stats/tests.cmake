foreach(noun decay events fading histogram metrics stats topk)
  rlb_unit_test(stats/${noun} LINK rlb::stats rlb::counters)
endforeach()
set_tests_properties(unit.stats.stats PROPERTIES LABELS "unit;thread")
