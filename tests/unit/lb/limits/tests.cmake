foreach(noun copies copies_model copies_thread copy copy_answer limit_lease request_match limit rate_rule)
  rlb_unit_test(lb/limits/${noun} LINK rlb::lb)
endforeach()
set_tests_properties(unit.lb.limits.copies_thread unit.lb.limits.limit_lease unit.lb.limits.limit unit.lb.limits.rate_rule PROPERTIES LABELS "unit;thread")
