foreach(noun advertise classify ejection_rule header_rules methods poison provider_limits retry_budget tunnel_limit)
  rlb_unit_test(lb/rules/${noun} LINK rlb::lb)
endforeach()
set_tests_properties(unit.lb.rules.advertise unit.lb.rules.poison unit.lb.rules.retry_budget unit.lb.rules.tunnel_limit PROPERTIES LABELS "unit;thread")
