foreach(noun homes homes_overflow homes_hand_over homes_model homes_places homes_recovery homes_share
    homes_shared homes_two_workers)
  rlb_unit_test(routing/homes/${noun} LINK rlb::routing)
endforeach()
