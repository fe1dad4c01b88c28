foreach(noun addr address_counts client_addr networks packet packet_queue packet_talk transport)
  rlb_unit_test(net/${noun} LINK rlb::net)
endforeach()
set_tests_properties(unit.net.address_counts PROPERTIES LABELS "unit;thread")
