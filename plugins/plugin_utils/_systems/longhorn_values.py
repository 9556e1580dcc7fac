# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which values Longhorn's chart knows in which release, and what became of those that are gone. Private. Pure.

Follows values.yaml of the chart, release by release from 1.9.0 to 1.12.1. Helm passes over a value that a chart does not know, so
that a setting would silently be lost with an upgrade.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots, nearest
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version

__all__ = ["longhorn_value_problems"]

_Release = tuple[int, int, int]
# (first release that has it, last one); None: the first that is known here, or the newest.
_Span = tuple[t.Optional[_Release], t.Optional[_Release]]
_NEWEST = (1, 12, 1)

# Sections of values.yaml whose keys are known, with the keys that 1.9.0 to 1.12.1 all have. What other sections take is not looked at.
_KEYS: dict[str, str] = {
    "global": "cattle nodeSelector tolerations",
    "networkPolicies": "enabled type",
    "persistence": (
        "backingImage backupTargetName dataEngine defaultClass defaultClassReplicaCount defaultDataLocality defaultDiskSelector "
        "defaultFsType defaultMkfsParams defaultNodeSelector disableRevisionCounter migratable nfsOptions reclaimPolicy "
        "recurringJobSelector volumeBindingMode"
    ),
    "preUpgradeChecker": "jobEnabled upgradeVersionCheck",
    "csi": "attacherReplicaCount kubeletRootDir provisionerReplicaCount resizerReplicaCount snapshotterReplicaCount",
    "defaultSettings": (
        "allowCollectingLonghornUsageMetrics allowEmptyDiskSelectorVolume allowEmptyNodeSelectorVolume "
        "allowRecurringJobWhileVolumeDetached allowVolumeCreationWithDegradedAvailability autoCleanupRecurringJobBackupSnapshot "
        "autoCleanupSnapshotAfterOnDemandBackupCompleted autoCleanupSnapshotWhenDeleteBackup autoCleanupSystemGeneratedSnapshot "
        "autoDeletePodWhenVolumeDetachedUnexpectedly autoSalvage backingImageCleanupWaitInterval "
        "backingImageRecoveryWaitInterval backupCompressionMethod backupConcurrentLimit backupExecutionTimeout "
        "concurrentAutomaticEngineUpgradePerNodeLimit concurrentReplicaRebuildPerNodeLimit "
        "concurrentVolumeBackupRestorePerNodeLimit createDefaultDiskLabeledNodes defaultDataLocality defaultDataPath "
        "defaultLonghornStaticStorageClass defaultReplicaCount deletingConfirmationFlag "
        "detachManuallyAttachedVolumesWhenCordoned disableRevisionCounter disableSchedulingOnCordonedNode disableSnapshotPurge "
        "engineReplicaTimeout failedBackupTTL fastReplicaRebuildEnabled freezeFilesystemForSnapshot "
        "guaranteedInstanceManagerCPU kubernetesClusterAutoscalerEnabled logLevel longGRPCTimeOut nodeDownPodDeletionPolicy "
        "nodeDrainPolicy orphanResourceAutoDeletion orphanResourceAutoDeletionGracePeriod priorityClass "
        "recurringFailedJobsHistoryLimit recurringJobMaxRetention recurringSuccessfulJobsHistoryLimit "
        "removeSnapshotsDuringFilesystemTrim replicaAutoBalance replicaDiskSoftAntiAffinity replicaFileSyncHttpClientTimeout "
        "replicaReplenishmentWaitInterval replicaSoftAntiAffinity replicaZoneSoftAntiAffinity restoreConcurrentLimit "
        "restoreVolumeRecurringJobs rwxVolumeFastFailover snapshotDataIntegrity snapshotDataIntegrityCronjob "
        "snapshotDataIntegrityImmediateCheckAfterSnapshotCreation snapshotMaxCount storageMinimalAvailablePercentage "
        "storageNetwork storageOverProvisioningPercentage storageReservedPercentageForDefaultDisk "
        "supportBundleFailedHistoryLimit systemManagedComponentsNodeSelector systemManagedPodsImagePullPolicy taintToleration "
        "upgradeChecker upgradeResponderURL v1DataEngine v2DataEngine"
    ),
    "defaultBackupStore": "backupTarget backupTargetCredentialSecret pollInterval",
    "longhornManager": "log nodeSelector priorityClass serviceAnnotations tolerations",
    "longhornDriver": "log nodeSelector priorityClass tolerations",
    "longhornUI": "affinity nodeSelector priorityClass replicas tolerations",
}
_SECTIONS = "annotations enableGoCoverDir enablePSP extraObjects image ingress metrics namespaceOverride openshift privateRegistry service serviceAccount"
# What came and what went, with its section.
_CHANGED: dict[_Span, str] = {
    (None, (1, 9, 0)): ("persistence.removeSnapshotsDuringFilesystemTrim"),
    (None, (1, 9, 2)): (
        "defaultSettings.v2DataEngineHugepageLimit defaultSettings.v2DataEngineGuaranteedInstanceManagerCPU "
        "defaultSettings.v2DataEngineCPUMask defaultSettings.v2DataEngineLogLevel defaultSettings.v2DataEngineLogFlags "
        "defaultSettings.v2DataEngineSnapshotDataIntegrity"
    ),
    (None, (1, 9, 1)): ("defaultSettings.offlineRelicaRebuilding"),
    ((1, 9, 1), None): ("global.imageRegistry global.imagePullSecrets persistence.unmapMarkSnapChainRemoved"),
    ((1, 9, 2), None): ("defaultSettings.offlineReplicaRebuilding"),
    ((1, 10, 0), None): (
        "defaultSettings.logPath defaultSettings.defaultBackupBlockSize defaultSettings.dataEngineHugepageEnabled "
        "defaultSettings.dataEngineMemorySize defaultSettings.dataEngineCPUMask "
        "defaultSettings.replicaRebuildingBandwidthLimit defaultSettings.instanceManagerPodLivenessProbeTimeout "
        "defaultSettings.dataEngineLogLevel defaultSettings.dataEngineLogFlags"
    ),
    ((1, 10, 1), None): ("defaultSettings.blacklistForAutoDeletePodWhenVolumeDetachedUnexpectedly"),
    ((1, 11, 0), None): (
        "global.timezone csi.podAntiAffinityPreset defaultSettings.managerUrl "
        "defaultSettings.systemManagedCSIComponentsResourceLimits defaultSettings.rebuildConcurrentSyncLimit "
        "defaultSettings.endpointNetworkForRWXVolume defaultSettings.snapshotHeavyTaskConcurrentLimit "
        "defaultSettings.defaultUblkQueueDepth defaultSettings.defaultUblkNumberOfQueue "
        "defaultSettings.nodeDiskHealthMonitoring longhornManager.resources longhornManager.serviceLabels "
        "longhornManager.updateStrategy httproute"
    ),
    ((1, 11, 1), None): ("defaultSettings.csiAllowedTopologyKeys"),
    ((1, 11, 2), None): ("defaultSettings.csiStorageCapacityTracking"),
    ((1, 11, 3), None): ("defaultSettings.dataEngineInterruptModeEnabled longhornManager.distro"),
    ((1, 12, 0), None): (
        "persistence.createStorageClass persistence.shareManagerNodeSelector persistence.shareManagerTolerations "
        "persistence.annotations defaultSettings.engineImagePodLivenessProbePeriod "
        "defaultSettings.engineImagePodLivenessProbeTimeout defaultSettings.engineImagePodLivenessProbeFailureThreshold "
        "defaultSettings.snapshotCountWarningThreshold defaultSettings.kubernetesMetricsServerMetricsEnabled"
    ),
    ((1, 12, 1), None): (
        "networkPolicies.restrictInternalTraffic networkPolicies.kubeAPIServerSourceCIDRs "
        "defaultSettings.dataEngineCPUIsolationEnabled defaultSettings.dataEngineNumberOfCPUCores "
        "defaultSettings.dataEngineIobufLargePoolSize defaultSettings.dataEngineIobufSmallPoolSize "
        "longhornUI.podDisruptionBudget"
    ),
}
# Removed values, and what has taken their place.
_INSTEAD = {
    "defaultSettings.offlineRelicaRebuilding": "defaultSettings.offlineReplicaRebuilding",
    "defaultSettings.orphanAutoDeletion": "defaultSettings.orphanResourceAutoDeletion, such as replica-data;instance",
    "defaultSettings.v2DataEngineCPUMask": "defaultSettings.dataEngineCPUMask",
    "defaultSettings.v2DataEngineGuaranteedInstanceManagerCPU": "defaultSettings.guaranteedInstanceManagerCPU",
    "defaultSettings.v2DataEngineHugepageLimit": "defaultSettings.dataEngineMemorySize",
    "defaultSettings.v2DataEngineLogFlags": "defaultSettings.dataEngineLogFlags",
    "defaultSettings.v2DataEngineLogLevel": "defaultSettings.dataEngineLogLevel",
    "defaultSettings.v2DataEngineSnapshotDataIntegrity": "defaultSettings.snapshotDataIntegrity",
    "persistence.removeSnapshotsDuringFilesystemTrim": "persistence.unmapMarkSnapChainRemoved",
}


def _spans() -> dict[str, _Span]:
    always: _Span = (None, None)
    spans = {f"{section}.{key}": always for section, keys in _KEYS.items() for key in keys.split()}
    return {**spans, **{path: span for span, paths in _CHANGED.items() for path in paths.split()}}


_SPANS = _spans()


def _problem(where: str, path: str, release: Version, known: t.Collection[str]) -> t.Optional[str]:
    """What is wrong with a value, None when the chart has it."""
    number = (*release.line, release.patch)
    span = _SPANS.get(path)
    first, last = span or (None, None)
    instead = f"; set {_INSTEAD[path]} instead" if path in _INSTEAD else "; take it out"
    if span is None and path in _INSTEAD:
        return f"{where}.{path}: the chart of Longhorn {release.text} no longer has it{instead}"
    if span is None:
        section = path.partition(".")[0]
        hint = nearest(path, [each for each in known if each.startswith(section + ".")])
        return f"{where}.{path}: the chart of Longhorn {release.text} has no such value, and would ignore it{hint}"
    if first and number < first:
        return f"{where}.{path}: came with Longhorn {in_dots(first)}, and the chart of {release.text} would ignore it; take it out"
    if last and number > last:
        return f"{where}.{path}: Longhorn {in_dots(last)} was the last with it, and the chart of {release.text} would ignore it{instead}"
    return None


def longhorn_value_problems(
    where: str, release: Version, values: t.Mapping[t.Any, t.Any]
) -> tuple[list[str], list[str]]:
    """(problems, warnings) of values that the chart of a release does not have.

    where: such as rdma_longhorn.values. Of a release that is newer than all that are known, an unknown value is a warning.
    """
    number = (*release.line, release.patch)
    sections = {path.partition(".")[0] for path in _SPANS} | set(_SECTIONS.split())
    gone: list[str] = []
    strange: list[str] = []
    for section, inner in values.items():
        if str(section) not in sections:
            hint = nearest(str(section), sections)
            strange.append(
                f"{where}.{section}: the chart of Longhorn {release.text} has no such value, and would ignore it{hint}"
            )
            continue
        paths = [str(section)] if str(section) in _SPANS else []
        if str(section) in _KEYS and isinstance(inner, t.Mapping):
            paths += [f"{section}.{key}" for key in inner]
        elif str(section) in _KEYS:
            strange.append(f"{where}.{section} is of type {type(inner).__name__}; expected a dictionary")
        for path in paths:
            problem = _problem(where, path, release, _SPANS)
            if problem:
                (gone if path in _SPANS or path in _INSTEAD else strange).append(problem)
    return (gone, strange) if number > _NEWEST else (gone + strange, [])
