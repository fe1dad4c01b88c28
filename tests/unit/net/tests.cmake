foreach(noun addr address_counts client_addr fair_shares networks packet packet_queue packet_talk transport)
  rlb_unit_test(net/${noun} LINK rlb::net)
endforeach()
set_tests_properties(unit.net.address_counts PROPERTIES LABELS "unit;thread")
