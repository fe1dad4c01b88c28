foreach(noun copies copies_model copies_thread copy copy_answer limit_claim request_match limit_rule rate_rule)
  rlb_unit_test(lb/limits/${noun} LINK rlb::lb)
endforeach()
set_tests_properties(unit.lb.limits.copies_thread unit.lb.limits.limit_claim unit.lb.limits.limit_rule unit.lb.limits.rate_rule PROPERTIES LABELS "unit;thread")
